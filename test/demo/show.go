package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/realmkeeper/realmkeeper/api/v1beta1"
	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

// showToken gets and verifies a token and prints what to try next.
func (d *demo) showToken(ctx context.Context, c *v1beta1.ApiClient) error {
	creds, err := d.credentials(ctx, c)
	if err != nil {
		return err
	}
	if err := d.writeEnv(c, creds); err != nil {
		return err
	}
	d.Step("Requesting a token ...")
	httpClient, err := httpClient(creds.authority, d.ports.Public)
	if err != nil {
		return err
	}
	got, err := request(ctx, httpClient, creds)
	if err != nil {
		return err
	}
	header, claims, err := verify(ctx, httpClient, creds, got.token)
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

The token, verified with the keys from %s:

%s
%s

The same request with curl:

curl --cacert %s --user %s --request POST %s`,
		creds.tokenURL, creds.clientID, got.status, got.body, creds.jwksURL, indent(header), indent(claims),
		quote(d.file("ca.crt")), quote(creds.clientID+":"+creds.clientSecret), quote(creds.tokenURL+"?grant_type=client_credentials"))
	d.Say(runningNow, systemNamespace, config.TokenServiceName)
	if err := d.showPortal(ctx); err != nil {
		return err
	}
	d.showNext(c)
	d.Say("\nThe logs are in %s. To stop and remove everything:\n\n  make demo-down", d.short("run/*.log"))
	return nil
}

// showNext prints commands to try next, to run in the repository.
func (d *demo) showNext(c *v1beta1.ApiClient) {
	d.Say(strings.TrimSuffix(nextSteps, "\n"), d.short("env"), c.Name, c.Namespace, systemNamespace,
		d.short("run/"+tokenServer(1)+".pid"), d.short("run/kube-apiserver.pid"), recordsNamespace)
}

const runningNow = `
Everything keeps running: a control plane, the operator, two token servers and the portal.

As in a cluster, the operator has created the Deployment %[2]s in
%[1]s. This control plane has no nodes and no scheduler, so the Pods
stay Pending. The local processes token-server-0 and token-server-1 serve instead.`

const nextSteps = `
To try more, run these commands in bash in this directory:

  source %[1]s
  token() { curl --cacert "$CA_FILE" --user "$CLIENT_ID:$CLIENT_SECRET" --request POST "$TOKEN_URL?grant_type=client_credentials"; }

List the objects and see what the operator has created:

  kubectl get realms,apiclients --all-namespaces
  kubectl describe apiclient %[2]s --namespace %[3]s
  kubectl get deployments,pods --namespace %[4]s
  kubectl get leases,secrets --namespace %[7]s

Suspend the client, get 401 invalid_client, and resume it with the same secret:

  kubectl patch apiclient %[2]s --namespace %[3]s --type merge --patch '{"spec":{"suspend":true}}'
  token
  kubectl patch apiclient %[2]s --namespace %[3]s --type merge --patch '{"spec":{"suspend":false}}'

Kill one of the two token servers and get a token from the other one. Then restart the
first one with make demo:

  kill -9 "$(head -n 1 %[5]s)"
  token
  make demo

Kill the API server. You still get tokens. Then make demo starts a new demo; source
%[1]s again:

  kill -9 "$(head -n 1 %[6]s)"
  token
  make demo
  source %[1]s
`

// writeEnv writes the shell variables that the printed commands use.
func (d *demo) writeEnv(c *v1beta1.ApiClient, creds credentials) error {
	if err := os.WriteFile(d.file("ca.crt"), creds.authority, 0o600); err != nil {
		return err
	}
	realm := c.Spec.RealmRef.Name
	var env bytes.Buffer
	if d.kubectl != "" {
		fmt.Fprintf(&env, "export PATH=%s:\"$PATH\" # for kubectl\n", quote(d.kubectl))
	}
	for _, variable := range []struct{ name, value string }{
		{"KUBECONFIG", d.adminKubeconfig()},
		{"AUTH_URL", strings.TrimSuffix(creds.issuer, "/"+realm)},
		{"CA_FILE", d.file("ca.crt")},
		{"REALM", realm},
		{"CLIENT_ID", creds.clientID},
		{"CLIENT_SECRET", creds.clientSecret},
		{"TOKEN_URL", creds.tokenURL},
		{"METRICS_URL", "http://" + address(d.ports.Operations[0]) + "/metrics"},
		{"PORTAL_URL", d.portalURL()},
	} {
		fmt.Fprintf(&env, "export %s=%s\n", variable.name, quote(variable.value))
	}
	return os.WriteFile(d.file("env"), env.Bytes(), 0o600)
}

// short returns the path of a file of the demo relative to the repository, if possible.
func (d *demo) short(name string) string {
	path := d.file(name)
	if relative, err := filepath.Rel(d.root, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}

// quote quotes any text as a single word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func indent(document []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, document, "", "  "); err != nil {
		return string(document)
	}
	return b.String()
}
