package main

import "sigs.k8s.io/yaml"

const homepage = "https://github.com/realmkeeper/realmkeeper"

// plugin is a krew plugin manifest (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       spec              `json:"spec"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []download `json:"platforms"`
}

// download is an archive of one platform.
type download struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

func newPlugin(version string) plugin {
	return plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]string{"name": "realmkeeper"},
		Spec: spec{
			Version:          version,
			Homepage:         homepage,
			ShortDescription: "Inspect and operate OAuth 2.0 realms and clients",
			Description: "Shows the state of Realmkeeper, explains why a client gets no tokens,\n" +
				"rotates, suspends, and revokes credentials, lists unused ones, and gets tokens.\n",
			Caveats: "To complete names in your shell, link the plugin in a directory on your PATH:\n" +
				"  ln -s \"$(command -v kubectl-realmkeeper)\" ~/.local/bin/kubectl_complete-realmkeeper\n",
		},
	}
}

func writeManifest(dir string, manifest plugin) error {
	content, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return writeFile(dir, "krew.yaml", content)
}
