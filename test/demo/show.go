package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1alpha1"
	"github.com/realmkeeper/realmkeeper/internal/config"
)

// showToken gets and verifies a token, and tells how to go on from there.
func (d *demo) showToken(ctx context.Context, c *v1alpha1.ApiClient) error {
	with, err := d.credentials(ctx, c)
	if err != nil {
		return err
	}
	if err := d.writeEnv(c, with); err != nil {
		return err
	}
	d.Step("Asking for a token ...")
	httpClient, err := httpClient(with.authority, d.ports.Public)
	if err != nil {
		return err
	}
	got, err := request(ctx, httpClient, with)
	if err != nil {
		return err
	}
	header, claims, err := verified(ctx, httpClient, with, got.token)
	if err != nil {
		return err
	}
	d.Step("Done.")

	d.Say(`
POST %s?grant_type=client_credentials
Authorization: Basic base64(%s:<client secret>)
(no body)

%s
%s

The token, verified with the keys at %s:

%s
%s

The same with curl:

curl --cacert %s --user %s --request POST %s`,
		with.tokenURL, with.clientID, got.status, got.body, with.jwksURL, indent(header), indent(claims),
		quote(d.file("ca.crt")), quote(with.clientID+":"+with.clientSecret), quote(with.tokenURL+"?grant_type=client_credentials"))
	d.showNext(c)
	return nil
}

// showNext tells what to try next, as lines for a shell in the repository.
func (d *demo) showNext(c *v1alpha1.ApiClient) {
	kubectl := ""
	if _, err := exec.LookPath("kubectl"); err != nil {
		kubectl = "\n  PATH=\"$PATH:" + d.binDir + "\" # for kubectl, which is not on yours"
	}
	d.Say(strings.TrimSuffix(nextSteps, "\n"), d.short("env"), kubectl, c.Name, c.Namespace, systemNamespace, config.TokenServiceName,
		d.short("run/"+tokenServer(1)+".pid"), d.short("run/kube-apiserver.pid"), d.short("run/*.log"))
}

const nextSteps = `
Everything is left running: a control plane, the operator and two token servers.

As in a cluster, the operator has made the Deployment %[6]s in
%[5]s. This control plane has no nodes and no scheduler, so its Pods
stay Pending. The local processes token-server-0 and token-server-1 serve in their place.

What to try next, in bash, in this directory:

  source %[1]s%[2]s
  token() { curl --cacert "$CA_FILE" --user "$CLIENT_ID:$CLIENT_SECRET" --request POST "$TOKEN_URL?grant_type=client_credentials"; }

See what there is, and what the operator made of it:

  kubectl get realms,apiclients --all-namespaces
  kubectl describe apiclient %[3]s --namespace %[4]s
  kubectl get deployments,pods,leases --namespace %[5]s

Suspend the client, get 401 invalid_client, and let it go on with the same secret:

  kubectl patch apiclient %[3]s --namespace %[4]s --type merge --patch '{"spec":{"suspend":true}}'
  token
  kubectl patch apiclient %[3]s --namespace %[4]s --type merge --patch '{"spec":{"suspend":false}}'

Kill one of the two token servers and get a token from the other; make demo starts the
first again:

  kill -9 "$(head -n 1 %[7]s)"
  token
  make demo

Kill the API server and get tokens all the same; make demo starts everything anew, so
source %[1]s again after it:

  kill -9 "$(head -n 1 %[8]s)"
  token

The logs are %[9]s. To stop and remove everything:

  make demo-down
`

// writeEnv writes what a shell needs to go on.
func (d *demo) writeEnv(c *v1alpha1.ApiClient, with credentials) error {
	if err := os.WriteFile(d.file("ca.crt"), with.authority, 0o600); err != nil {
		return err
	}
	realm := c.Spec.RealmRef.Name
	var env bytes.Buffer
	for _, variable := range []struct{ name, value string }{
		{"KUBECONFIG", d.adminKubeconfig()},
		{"AUTH_URL", strings.TrimSuffix(with.issuer, "/"+realm)},
		{"CA_FILE", d.file("ca.crt")},
		{"REALM", realm},
		{"CLIENT_ID", with.clientID},
		{"CLIENT_SECRET", with.clientSecret},
		{"TOKEN_URL", with.tokenURL},
		{"METRICS_URL", "http://" + address(d.ports.Operations[0]) + "/metrics"},
	} {
		fmt.Fprintf(&env, "export %s=%s\n", variable.name, quote(variable.value))
	}
	return os.WriteFile(d.file("env"), env.Bytes(), 0o600)
}

// short is the path of a file of the demo as one types it in the repository.
func (d *demo) short(name string) string {
	path := d.file(name)
	if relative, err := filepath.Rel(d.root, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}

// quote makes one word of a shell of any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func indent(document []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, document, "", "  "); err != nil {
		return string(document)
	}
	return b.String()
}
