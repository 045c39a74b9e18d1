package beside_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/realmkeeper/realmkeeper/test/controlplane/process"
)

// rabbitMQ runs a node with the configuration on the page. Its callers connect with AMQP 0.9.1, and publish and
// read a message.
func rabbitMQ(t *testing.T, s setup) instance {
	// Erlang's port mapper would outlive the node, so it has a port of its own.
	distribution, mapper := reservePort(t), reservePort(t)
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "epmd", "-port", mapper, "-kill").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	plugins := s.write(t, "enabled_plugins", "[rabbitmq_auth_backend_oauth2].\n")
	config := s.write(t, "rabbitmq.conf", s.fill(s.block(t, "ini"))+"listeners.tcp.1 = "+s.address+"\nlog.console = true\n")
	s.start(t, process.Command{Name: "rabbitmq", Path: "/usr/lib/rabbitmq/bin/rabbitmq-server", Env: []string{
		"HOME=" + s.dir, "RABBITMQ_NODENAME=beside@localhost", "RABBITMQ_CONFIG_FILE=" + config, "RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_MNESIA_BASE=" + s.dir, "RABBITMQ_LOG_BASE=" + s.dir, "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_DIST_PORT=" + distribution, "ERL_EPMD_PORT=" + mapper, "ERL_EPMD_ADDRESS=127.0.0.1",
	}}, reachable(s.address))
	return s.script(t, "/usr/bin/python3", s.write(t, "call.py", rabbitMQCall), s.address)
}

const rabbitMQCall = `import sys, pika
print("ready", flush=True)
host, port = sys.argv[1].split(":")
for token in map(str.strip, sys.stdin):
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters(
            host, int(port), credentials=pika.PlainCredentials("", token), socket_timeout=70, blocked_connection_timeout=70, stack_timeout=70))
        channel = connection.channel()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"order")
        while channel.basic_get("orders", auto_ack=True)[0] is None:
            pass
        connection.close()
        result = "message sent and received"
    except Exception as error:
        result = repr(error)
        for name, text in ("login refused", "Login was refused"), ("access refused", "ACCESS_REFUSED - access to"):
            if text in result:
                result = name
    print(result, flush=True)
`

// rabbitMQConnections keeps a publisher and a consumer connected with the first token, and sends messages to the consumer
// with the second one. It prints how many seconds after the expiration of the first token each of them still works, at
// most 120.
const rabbitMQConnections = `import sys, time, pika
host, port = sys.argv[1].split(":")
expiration = float(sys.argv[2])
brief, usual = sys.stdin.read().split()

def connect(token, queue):
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=pika.PlainCredentials("", token)))
    channel = connection.channel()
    channel.queue_declare(queue)
    return connection, channel

publishing, publisher = connect(brief, "published")
publisher.confirm_delivery()
consuming, consumer = connect(brief, "consumed")
sending, sender = connect(usual, "consumed")
worked = {"publisher": 0, "consumer": 0}

def received(*_):
    worked["consumer"] = int(time.time() - expiration)

consumer.basic_consume("consumed", received, auto_ack=True)
while time.time() < expiration + 121:
    sender.basic_publish("", "consumed", b"")
    consuming.process_data_events(time_limit=0.5)
    if publisher:
        try:
            publisher.basic_publish("", "published", b"")
            worked["publisher"] = int(time.time() - expiration)
        except pika.exceptions.AMQPError:
            publisher = None
    time.sleep(0.5)
print(worked["publisher"], worked["consumer"])
`
