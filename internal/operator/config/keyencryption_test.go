package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/operator/config"
)

func TestKeyEncryptionRejects(t *testing.T) {
	for name, test := range map[string]struct{ kms, want string }{
		"no image":               {"{}", "keyEncryption.kms.image is required"},
		"pull policy":            {"{image: kms, imagePullPolicy: Often}", "keyEncryption.kms.imagePullPolicy"},
		"short timeout":          {"{image: kms, timeout: 1ms}", "keyEncryption.kms.timeout must be between 100ms and 30s"},
		"long timeout":           {"{image: kms, timeout: 1m}", "keyEncryption.kms.timeout"},
		"name of a variable":     {"{image: kms, env: [{name: a=b}]}", "keyEncryption.kms.env[0].name"},
		"request above limit":    {"{image: kms, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}", "keyEncryption.kms.resources.requests.cpu 2 exceeds its limit 1"},
		"name of a volume":       {"{image: kms, volumes: [{name: A}]}", "keyEncryption.kms.volumes[0].name"},
		"volume of the Pod":      {"{image: kms, volumes: [{name: serving-cert, emptyDir: {}}]}", "is the name of another volume"},
		"volume of the node":     {"{image: kms, volumes: [{name: a, hostPath: {path: /}}]}", "keyEncryption.kms.volumes[0] must be"},
		"volume twice":           {"{image: kms, volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}", "keyEncryption.kms.volumes[1].name"},
		"mount without a volume": {"{image: kms, volumeMounts: [{name: a, mountPath: /a}]}", "is not in keyEncryption.kms.volumes"},
		"mount of other secrets": {"{image: kms, volumeMounts: [{name: serving-cert, mountPath: /a}]}", "is not in keyEncryption.kms.volumes"},
		"relative mount path":    {"{image: kms, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: a}]}", "keyEncryption.kms.volumeMounts[0].mountPath"},
		"mount over the socket":  {"{image: kms, volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /var/run/realmkeeper/kms}]}", "keyEncryption.kms.volumeMounts[0].mountPath"},
		"unknown key":            {"{image: kms, socket: /tmp/a}", "keyEncryption.kms.socket"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse([]byte(minimal + "keyEncryption: {kms: " + test.kms + "}"))
			if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
