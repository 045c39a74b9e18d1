package beside_test

import "testing"

// client is a library that gets tokens. Its section has code that calls an API, and what its caller sees.
type client struct {
	page, section string
	start         func(*testing.T, setup) instance
}

// clients are all that TestClients runs.
var clients = []client{
	{"clients.md", "Python: Authlib", pythonClient},
	{"clients.md", "Python: requests-oauthlib", pythonClient},
	{"clients.md", "Ruby: oauth2", rubyClient},
	{"clients.md", "Node.js: simple-oauth2", nodeClient},
	{"clients.md", "Node.js: client-oauth2", nodeClient},
	{"clients.md", "Node.js: @badgateway/oauth2-client", nodeClient},
	{"clients.md", "Node.js: axios-oauth-client", nodeClient},
	{"clients.md", "Node.js: @azure/msal-node", nodeClient},
	{"prometheus.md", "Prometheus", prometheus},
	{"opentelemetry.md", "oauth2clientauthextension", oauth2Collector},
}

// Each program calls the API at a URL for each line of its input, and writes the response or the error.

func pythonClient(t *testing.T, s setup) instance {
	return s.script(t, "/usr/bin/python3", s.write(t, "client.py", s.fill(s.block(t, "python"))+`
import sys
print("ready", flush=True)
for line in sys.stdin:
    try:
        result = get(line.strip()).text
    except (Exception, Warning) as error:
        result = f"raises {type(error).__name__}: {error}"
    print(" ".join(result.split()), flush=True)
`))
}

func rubyClient(t *testing.T, s setup) instance {
	return s.script(t, "ruby", s.write(t, "client.rb", s.fill(s.block(t, "ruby"))+`
$stdout.sync = true
puts 'ready'
$stdin.each_line do |line|
  result = begin
    get(line.strip).body
  rescue StandardError => e
    "raises #{e.class}: #{e.message}"
  end
  puts result.split.join(' ')
end
`))
}
