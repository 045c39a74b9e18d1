package attack_test

import (
	"testing"

	"github.com/realmkeeper/realmkeeper/test/attack/honest"
	"github.com/realmkeeper/realmkeeper/test/attack/target"
	"github.com/realmkeeper/realmkeeper/test/attack/tokens"
)

// Attacks on what a token server remembers of tokens cost it no more memory than its limit, and honest clients no
// calls. The report says how much longer their calls take than before the attack.
func TestTokens(t *testing.T) {
	writeReport(t)
	v := victims(t)[0]
	const server = "https://" + target.HostName
	v.call = honest.CheckedTokens(server+target.TokenPath, server+target.VerifyPath, loaded.client.ID, loaded.client.Secret)
	v.get = target.VerifyPath
	for _, name := range tokens.Names {
		t.Run(name, func(t *testing.T) {
			server := v.start(t)
			v.before = v.callHonestly(t, server, server.Address, *duration).Percentile(0.99)
			tally := v.attack(t, server, server.Address, name, tokens.Attacks[name], oneSource, *duration)
			if most := int64(tokens.Clients); tally.Connections > most {
				t.Errorf("%d connections were opened, want %d: requests of the attack fail", tally.Connections, most)
			}
		})
	}
}
