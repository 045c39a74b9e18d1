package bench_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/realmkeeper/realmkeeper/hack/testkit"
	"github.com/realmkeeper/realmkeeper/internal/protocol/signingkey"
	"github.com/realmkeeper/realmkeeper/internal/tokenserver"
)

// BenchmarkAlone measures requests per second and core of the token server alone: by the CPU time of its process,
// including its part of the kernel, while another process sends the requests.
func BenchmarkAlone(b *testing.B) {
	for name, setup := range map[string]func(*testing.B) workload{"token": secrets, "assertion": assertions, "introspection": introspections} {
		for how, o := range map[string]sendOrder{"plain": {}, "keep-alive": {TLS: true}, "connection-per-request": {TLS: true, Once: true}} {
			b.Run(name+"-"+how, func(b *testing.B) {
				w := setup(b)
				measureAlone(b, productServer(w.server.handler), w.load, o)
			})
		}
	}
	for _, algorithm := range signingkey.Algorithms {
		b.Run("token-"+string(algorithm), func(b *testing.B) {
			p := benchPopulation(b, algorithm)
			measureAlone(b, productServer(p.handler), anyOf(p.requests), sendOrder{})
		})
		b.Run("naive-"+string(algorithm), func(b *testing.B) {
			p := benchPopulation(b, algorithm)
			remembering := benchHandler(p.registry, func(o *tokenserver.Options) { o.SignAndVerifyAlways = false })
			measureAlone(b, productServer(remembering), anyOf(p.requests[:naiveClients]), sendOrder{})
		})
	}
}

func measureAlone(b *testing.B, server newServer, load load, o sendOrder) {
	b.Helper()
	if o.TLS {
		server = overTLS(b, server)
	}
	o.Address = listen(b, server)
	s := startSender(b, o)
	requests := make([][]byte, 1000)
	sent, spent := 0, time.Duration(0)
	for b.Loop() {
		load.prepareNow()
		for i := range requests {
			requests[i] = load.next()
		}
		s.tell(b, requests)
		start := cpuTime()
		s.tell(b, nil)
		sent, spent = sent+len(requests), spent+cpuTime()-start
	}
	b.ReportMetric(float64(sent)/spent.Seconds(), "per-core")
}

// sendOrder says where and how the process of a sender sends requests.
type sendOrder struct {
	Address string
	TLS     bool
	Once    bool // with a connection for each request
}

// senderVariable has the sendOrder, in JSON, of a process that is a sender.
const senderVariable = "REALMKEEPER_BENCH_SENDER"

func TestMain(m *testing.M) {
	order := os.Getenv(senderVariable)
	if order == "" {
		os.Exit(m.Run())
	}
	if err := executeOrder([]byte(order)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sender is another process of this program. It gets requests and then an empty list, when it sends them, and
// prints a line for each.
type sender struct {
	input  *gob.Encoder
	output *bufio.Reader
}

func startSender(b *testing.B, o sendOrder) *sender {
	b.Helper()
	command := exec.CommandContext(b.Context(), os.Args[0])
	command.Env = append(os.Environ(), senderVariable+"="+string(testkit.Value(json.Marshal(o))(b)))
	command.Stderr = os.Stderr
	input, output := testkit.Value(command.StdinPipe())(b), testkit.Value(command.StdoutPipe())(b)
	testkit.Do(b, command.Start())
	b.Cleanup(func() {
		input.Close()
		_ = command.Wait() // its errors are those of tell
	})
	return &sender{gob.NewEncoder(input), bufio.NewReader(output)}
}

// tell returns when the sender has got the requests, or has sent the last ones.
func (s *sender) tell(b *testing.B, requests [][]byte) {
	b.Helper()
	testkit.Do(b, s.input.Encode(requests))
	testkit.Value(s.output.ReadString('\n'))(b)
}

// executeOrder sends requests until there is no more input.
func executeOrder(encoded []byte) error {
	var o sendOrder
	if err := json.Unmarshal(encoded, &o); err != nil {
		return err
	}
	var connections []*connection
	for range benchConnections {
		c := &connection{connect: o.connect}
		if !o.Once {
			conn, err := o.connect()
			if err != nil {
				return err
			}
			c = &connection{conn: conn}
		}
		connections = append(connections, c)
	}
	var requests [][]byte
	for input := gob.NewDecoder(os.Stdin); ; {
		var next [][]byte
		if err := input.Decode(&next); err != nil {
			return nil //nolint:nilerr // The benchmark has ended.
		}
		if len(next) == 0 {
			if err := sendAll(connections, requests); err != nil {
				return err
			}
		}
		requests = next
		fmt.Println()
	}
}

func (o sendOrder) connect() (net.Conn, error) {
	if o.TLS {
		return tls.Dial("tcp", o.Address, &tls.Config{InsecureSkipVerify: true})
	}
	return (&net.Dialer{}).DialContext(context.Background(), "tcp", o.Address)
}

// sendAll sends the requests, one at a time on each connection.
func sendAll(connections []*connection, requests [][]byte) error {
	queue := make(chan []byte, len(requests))
	for _, request := range requests {
		queue <- request
	}
	close(queue)
	failed := make(chan error, len(connections))
	var running sync.WaitGroup
	for _, c := range connections {
		running.Go(func() {
			for request := range queue {
				c.next = func() []byte { return request }
				if err := c.exchange(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	running.Wait()
	return firstError(failed)
}
