//go:build nightly

// Package kms_test tests the encryption of private keys with a KMS plugin over SoftHSM.
package kms_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/framework/env"
	"github.com/realmkeeper/realmkeeper/test/framework/install"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithRaceDetector())
}

// speedUp makes rotations of signing keys take seconds.
const speedUp = 3600

// encryption are the settings of an installation that encrypts keys.
var encryption = install.Settings{SpeedUp: speedUp, KeyEncryption: true}
