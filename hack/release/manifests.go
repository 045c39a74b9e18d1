package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// placeholder is in the instance configuration of install.yaml. It isn't a valid domain, so the
// operator doesn't start until you replace it.
const placeholder = "INSTANCE_DOMAIN"

var errConfig = errors.New("config/overlays/production/config.yaml does not set instanceDomain: example.com once")

const header = `# Realmkeeper %[1]s: the CRDs and an instance with the production profile. Apply it with your domain
# instead of %[2]s; the token service is then at api.<domain>:
#
#   sed 's/%[2]s/example.com/' install.yaml | kubectl apply --server-side -f -
#
# If you change the instance configuration of an existing instance, also run:
#
#   kubectl -n realmkeeper-system rollout restart deployment/realmkeeper-operator
#
# To change anything else, use the Helm chart. More: %[3]s/blob/%[1]s/docs/operations/README.md
`

// overlay changes the image and the instance configuration of the production overlay. The name of
// the ConfigMap has no suffix, because users change its content.
const overlay = `resources: [../config/overlays/production]
configMapGenerator:
- name: realmkeeper-config
  namespace: realmkeeper-system
  behavior: replace
  files: [config.yaml]
  options: {disableNameSuffixHash: true}
images:
- name: realmkeeper
  newName: %s
  newTag: %s
  digest: %s
`

// writeManifests writes the CRDs, and an installation of the production overlay. The digest pins
// the image, so that the checksum of the manifest covers the programs.
func writeManifests(o options, digest, dir string) error {
	tree := filesys.MakeFsInMemory()
	config := filepath.Join(o.source, "config")
	err := filepath.WalkDir(config, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(o.source, path)
		return errors.Join(err, tree.WriteFile("/"+filepath.ToSlash(relative), content))
	})
	if err != nil {
		return err
	}
	crds, err := kustomize(tree, "/config/crd")
	if err != nil {
		return err
	}
	instance, err := tree.ReadFile("/config/overlays/production/config.yaml")
	if err != nil {
		return err
	}
	const domain = "instanceDomain: example.com # the token service is at api.example.com"
	if strings.Count(string(instance), domain) != 1 {
		return errConfig
	}
	instance = []byte(strings.Replace(string(instance), domain, "instanceDomain: "+placeholder, 1))
	if err := errors.Join(
		tree.WriteFile("/release/config.yaml", instance),
		tree.WriteFile("/release/kustomization.yaml", fmt.Appendf(nil, overlay, o.image(), o.version, digest)),
	); err != nil {
		return err
	}
	install, err := kustomize(tree, "/release")
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(dir, "crds.yaml", crds),
		writeFile(dir, "install.yaml", append(fmt.Appendf(nil, header, o.version, placeholder, homepage), install...)),
	)
}

func kustomize(tree filesys.FileSystem, path string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	// Namespaces come first, because kubectl applies the objects in the order of the file.
	options.Reorder = krusty.ReorderOptionLegacy
	objects, err := krusty.MakeKustomizer(options).Run(tree, path)
	if err != nil {
		return nil, err
	}
	return objects.AsYaml()
}
