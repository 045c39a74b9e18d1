package clientsecret_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/oauth"
)

func TestCheckChosen(t *testing.T) {
	tests := map[string]struct {
		secret string
		want   error
	}{
		"16 characters":            {strings.Repeat("ä", 16), nil},
		"1024 characters":          {strings.Repeat("ä", 1024), nil},
		"words":                    {"correct horse battery staple", nil},
		"15 characters":            {strings.Repeat("ä", 15), clientsecret.ErrTooShort},
		"empty":                    {"", clientsecret.ErrTooShort},
		"1025 characters":          {strings.Repeat("a", 1025), clientsecret.ErrNotUsable},
		"trailing line break":      {"correct horse battery staple\n", clientsecret.ErrNotUsable},
		"short with line break":    {"secret\n", clientsecret.ErrNotUsable},
		"NUL":                      {"correct horse\x00battery staple", clientsecret.ErrNotUsable},
		"DEL":                      {"correct horse\x7fbattery staple", clientsecret.ErrNotUsable},
		"not UTF-8":                {"correct horse\xffbattery staple", clientsecret.ErrNotUsable},
		"incomplete character":     {"correct horse battery staple\xc3", clientsecret.ErrNotUsable},
		"character beyond Unicode": {"correct horse\xf7\xbf\xbf\xbfstaple", clientsecret.ErrNotUsable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := clientsecret.CheckChosen(tc.secret)
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if err == nil && !oauth.ValidCredential(tc.secret) {
				t.Error("the token endpoint rejects the secret")
			}
		})
	}
}
