// Package kms_test tests the encryption of private keys with a KMS plugin over SoftHSM.
package kms_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
	"github.com/realmkeeper/realmkeeper/test/framework/kmsplugin"
)

func TestMain(m *testing.M) {
	env.Main(m)
}

// speedUp makes rotations of signing keys take seconds.
const speedUp = 3600

// encryption are the settings of an installation that encrypts keys.
var encryption = install.Settings{SpeedUp: speedUp, KeyEncryption: true}

// startEncrypted starts a plugin, and an operator and token servers that use it.
func startEncrypted(t *testing.T, servers int) (*install.Installation, *kmsplugin.Plugin) {
	t.Helper()
	plugin := kmsplugin.Start(t)
	inst := install.New(t, env.Start(t), encryption)
	inst.KMSSocket = plugin.Socket
	inst.StartOperator(t, "")
	for range servers {
		inst.StartTokenServer(t)
	}
	return inst, plugin
}
