package beside_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// dovecotMain is what the configuration on the page assumes.
const dovecotMain = `base_dir = DIR/run
state_dir = DIR
log_path = /dev/stderr
protocols = imap
ssl = no
mail_location = maildir:DIR/mail/%u
userdb {
  driver = static
  args = uid=65534 gid=65534 home=DIR/mail/%u
}
service imap-login {
  inet_listener imap {
    address = 127.0.0.1
    port = PORT
  }
  inet_listener imaps {
    port = 0
  }
}
disable_plaintext_auth = no
# Don't delay responses to callers with many failures.
auth_failure_delay = 0
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
`

func dovecot(t *testing.T, s setup) instance {
	_, port, _ := strings.Cut(s.address, ":")
	oauth2 := s.write(t, "dovecot-oauth2.conf.ext", s.fill(s.block(t, "ini")))
	config := strings.NewReplacer("DIR", s.dir, "PORT", port).Replace(dovecotMain) +
		strings.ReplaceAll(s.block(t, "text"), "/etc/dovecot/dovecot-oauth2.conf.ext", oauth2)
	s.start(t, process.Command{Name: "dovecot", Path: "/usr/sbin/dovecot", Args: []string{"-F", "-c", s.write(t, "dovecot.conf", config)}}, reachable(s.address))
	return instance{call: func(token string) string {
		return timed(func() string {
			result, err := signInToIMAP(s.address, token)
			if err != nil {
				return err.Error()
			}
			return result
		})
	}}
}

// imapDetails matches what differs from one response to the next.
var imapDetails = regexp.MustCompile(`\[CAPABILITY [^]]*\] | \([^)]*\)| \[\S+:[0-9: -]+\]`)

// signInToIMAP returns the last line of the response to a sign-in as the subject of the token.
func signInToIMAP(address, token string) (string, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	initial := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "n,a=%s,\x01auth=Bearer %s\x01\x01", claim(token, "sub"), token))
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "* OK"):
			_, err = fmt.Fprintf(connection, "a AUTHENTICATE OAUTHBEARER %s\r\n", initial)
		case strings.HasPrefix(line, "+"): // The details of an error, which the client confirms (RFC 7628 §3.2.3).
			_, err = fmt.Fprint(connection, "AQ==\r\n")
		case strings.HasPrefix(line, "a "):
			return imapDetails.ReplaceAllString(strings.TrimPrefix(line, "a "), ""), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", lines.Err()
}
