package beside_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane"
	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// nodeFile returns the path of a file or folder in the folder node.
func nodeFile(t *testing.T, name string) string {
	t.Helper()
	root, err := controlplane.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "test", "beside", "node", name)
}

// node returns the command that runs the module of the section, followed by more code, with the npm packages of the
// folder node.
func (s setup) node(t *testing.T, more string) (arguments []string) {
	t.Helper()
	if err := os.Symlink(nodeFile(t, "node_modules"), filepath.Join(s.dir, "node_modules")); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return []string{"NODE_EXTRA_CA_CERTS=" + s.authority, "node", s.write(t, "main.mjs", s.fill(s.block(t, "js"))+more)}
}

func nodeVerifier(t *testing.T, s setup) instance {
	return s.script(t, "env", s.node(t, `
import { createInterface } from 'node:readline'
console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  try {
    await verify(line)
    console.log('accepts')
  } catch (error) {
    console.log('rejects: ' + error.constructor.name)
  }
}
process.exit()
`)...)
}

// Each program calls the API at a URL for each line of its input, and writes the response or the error.
func nodeClient(t *testing.T, s setup) instance {
	return s.script(t, "env", s.node(t, `
import { createInterface } from 'node:readline'
console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  let result
  try {
    const response = await get(line)
    result = response.data ?? await response.text()
  } catch (error) {
    result = 'throws ' + error.name + ': ' + error.message
  }
  console.log(result.split(/\s+/).join(' '))
}
process.exit()
`)...)
}

// The APIs respond with the client ID of the caller.

func express(t *testing.T, s setup) instance {
	return s.nodeAPI(t, `
app.get('/', (request, response) => response.json([request.auth.payload.client_id]))
app.listen(PORT, '127.0.0.1')
`)
}

func fastify(t *testing.T, s setup) instance {
	return s.nodeAPI(t, `
app.get('/', async request => [request.user.client_id])
await app.listen({ port: PORT, host: '127.0.0.1' })
`)
}

func hono(t *testing.T, s setup) instance {
	return s.nodeAPI(t, `
app.get('/', c => c.json([c.get('jwtPayload').client_id]))
serve({ fetch: app.fetch, port: PORT, hostname: '127.0.0.1' })
`)
}

// nodeAPI runs an API with a handler.
func (s setup) nodeAPI(t *testing.T, handler string) instance {
	t.Helper()
	call, _ := httpCalls(t, s.address, "X-Auth-Client-Id")
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	s.start(t, process.Command{Name: "node", Path: env, Args: s.node(t, strings.ReplaceAll(handler, "PORT", port))}, reachable(s.address))
	return instance{call: call}
}
