package clientsecret_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/internal/clientsecret"
	"github.com/realmkeeper/realmkeeper/internal/testkit"
)

func TestParsePBKDF2(t *testing.T) {
	encode := func(n int) string { return base64.RawStdEncoding.EncodeToString(make([]byte, n)) }
	with := func(prefix string, salt, tag int) string {
		return "$pbkdf2-" + prefix + "$" + encode(salt) + "$" + encode(tag)
	}
	valid := with("sha256$i=25000,l=32", 16, 32)
	plus, dot := strings.Repeat("+", 22), strings.Repeat(".", 22)
	plus, dot = plus[:21]+"w", dot[:21]+"w"
	testParse(t, map[string]parseTest{
		"Hydra's default":            {phc: valid},
		"SHA-512":                    {phc: with("sha512$i=25000,l=64", 16, 64)},
		"no length":                  {phc: with("sha256$i=25000", 16, 32)},
		"passlib":                    {phc: with("sha256$29000", 16, 32)},
		"least iterations":           {phc: with("sha256$i=10000,l=32", 16, 32)},
		"most iterations":            {phc: with("sha256$i=1000000,l=32", 16, 32)},
		"shortest salt and tag":      {phc: with("sha256$i=10000,l=16", 8, 16)},
		"longest salt":               {phc: with("sha512$i=10000,l=64", 64, 64)},
		"plus sign in the salt":      {phc: "$pbkdf2-sha256$i=25000$" + plus + "$" + encode(32)},
		"dot in the salt of passlib": {phc: "$pbkdf2-sha256$25000$" + dot + "$" + encode(32)},

		"too few iterations":            {with("sha256$i=9999,l=32", 16, 32), clientsecret.ErrHashTooWeak},
		"too few iterations in passlib": {with("sha256$9999", 16, 32), clientsecret.ErrHashTooWeak},
		"too many iterations":           {with("sha256$i=1000001,l=32", 16, 32), clientsecret.ErrHashParameters},
		"iterations over 32 bits":       {with("sha256$i=4294992296,l=32", 16, 32), clientsecret.ErrHashFormat},
		"iterations of 1000 digits":     {with("sha256$"+strings.Repeat("9", 1000), 16, 32), clientsecret.ErrHashFormat},
		"plus sign":                     {with("sha256$+25000", 16, 32), clientsecret.ErrHashFormat},
		"leading zero":                  {with("sha256$025000", 16, 32), clientsecret.ErrHashFormat},
		"empty parameters":              {with("sha256$", 16, 32), clientsecret.ErrHashFormat},
		"wrong order":                   {with("sha256$l=32,i=25000", 16, 32), clientsecret.ErrHashFormat},
		"extra parameter":               {with("sha256$i=25000,l=32,x=1", 16, 32), clientsecret.ErrHashFormat},
		"other length":                  {with("sha256$i=25000,l=31", 16, 32), clientsecret.ErrHashFormat},
		"no length after the name":      {with("sha256$i=25000,l=", 16, 32), clientsecret.ErrHashFormat},
		"short salt":                    {with("sha256$i=25000,l=32", 7, 32), clientsecret.ErrHashFormat},
		"long salt":                     {with("sha256$i=25000,l=32", 65, 32), clientsecret.ErrHashFormat},
		"short tag":                     {with("sha256$i=25000,l=15", 16, 15), clientsecret.ErrHashFormat},
		"tag longer than SHA-256":       {with("sha256$i=25000,l=33", 16, 33), clientsecret.ErrHashFormat},
		"tag longer than SHA-512":       {with("sha512$i=25000,l=65", 16, 65), clientsecret.ErrHashFormat},
		"no tag":                        {"$pbkdf2-sha256$i=25000$" + encode(16), clientsecret.ErrHashFormat},
		"trailing line break":           {valid + "\n", clientsecret.ErrHashFormat},
		"nonzero trailing bits":         {valid[:len(valid)-1] + "B", clientsecret.ErrHashFormat},
		"dot in the salt":               {"$pbkdf2-sha256$i=25000$" + dot + "$" + encode(32), clientsecret.ErrHashFormat},
		"plus sign in passlib":          {"$pbkdf2-sha256$25000$" + plus + "$" + encode(32), clientsecret.ErrHashFormat},

		"SHA-1":                {"$pbkdf2-sha1$i=25000,l=20$" + encode(16) + "$" + encode(20), clientsecret.ErrHashScheme},
		"scheme in upper case": {strings.ToUpper(valid), clientsecret.ErrHashScheme},
		"Django":               {"pbkdf2_sha256$600000$c2FsdHNhbHQ$" + encode(32) + "=", clientsecret.ErrHashFormat},
	})
}

// The same salt and tag in another form is another string of an equal hash, so the ID is the same.
func TestPBKDF2IDsAreThoseOfTheSalt(t *testing.T) {
	ids := map[string]bool{}
	for _, phc := range []string{
		"$pbkdf2-sha256$i=25000,l=32$AAAAAAAAAAAAAAAAAAAAAA$iE55mgmaFgVqcSWmP/u+VvKmN93XQOh0S5iPX5KvmM8",
		"$pbkdf2-sha256$25000$AAAAAAAAAAAAAAAAAAAAAA$iE55mgmaFgVqcSWmP/u.VvKmN93XQOh0S5iPX5KvmM8",
		"$2b$10$......................QE5xw9/5pe8/UCvfII2V36dbQ9UyxXG",
	} {
		verifier := testkit.Value(clientsecret.ParseVerifier(phc))(t)
		ids[verifier.ID()] = true
	}
	if len(ids) != 1 {
		t.Errorf("IDs %v, want one", ids)
	}
}
