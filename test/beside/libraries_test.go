package beside_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// The libraries run with the function verify of the page, and what calls it for each line of the input.

func pyJWT(t *testing.T, s setup) instance {
	return s.script(t, "/usr/bin/python3", s.write(t, "verify.py", s.fill(s.block(t, "python"))+`
import sys
print("ready", flush=True)
for line in sys.stdin:
    try:
        verify(line.strip())
        print("accepts", flush=True)
    except Exception as error:
        print("rejects:", type(error).__name__, flush=True)
`))
}

func rubyJWT(t *testing.T, s setup) instance {
	return s.script(t, "ruby", s.write(t, "verify.rb", s.fill(s.block(t, "ruby"))+`
$stdout.sync = true
puts 'ready'
$stdin.each_line do |line|
  verify(line.strip)
  puts 'accepts'
rescue StandardError => e
  puts "rejects: #{e.class}"
end
`))
}

func perlJWT(t *testing.T, s setup) instance {
	return s.script(t, "/usr/bin/perl", s.write(t, "verify.pl", s.fill(s.block(t, "perl"))+`
$| = 1;
print "ready\n";
while (my $line = <STDIN>) {
    chomp $line;
    if (eval { verify($line) }) { print "accepts\n"; next }
    my ($reason) = $@ =~ /^(.*?)(?: \(.*| at \S+ line \d+\.?)?\n/;
    $reason =~ s/localhost:\d+/.../;
    print "rejects: $reason\n";
}
`))
}

func erlangJOSE(t *testing.T, s setup) instance {
	return s.script(t, "escript", s.write(t, "verify.erl", "%% -*- erlang -*-\n-mode(compile).\n"+s.fill(s.block(t, "erlang"))+`
main(_) ->
    logger:set_primary_config(level, none),
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = application:ensure_all_started(ssl),
    {ok, _} = application:ensure_all_started(jose),
    io:format("ready~n"),
    loop(none).

loop(Keys) ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            Token = list_to_binary(string:trim(Line)),
            {Result, Next} = call(Token, Keys),
            io:format("~s~n", [Result]),
            loop(Next)
    end.

call(Token, none) ->
    try load_keys() of Keys -> call(Token, Keys) catch _:_ -> {"rejects: no keys", none} end;
call(Token, Keys) ->
    try verify(Token, Keys) of
        _ -> {"accepts", Keys}
    catch
        error:unknown_key ->
            New = try load_keys() catch _:_ -> Keys end,
            {try verify(Token, New), "accepts" catch _:_ -> "rejects" end, New};
        _:_ -> {"rejects", Keys}
    end.
`))
}

// cMain loads the keys at start and for the line "keys", and otherwise verifies the token of each line.
const cMain = `
#include <stdio.h>

int main(void) {
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    json_t *keys = load_keys();
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while ((length = getline(&line, &size, stdin)) > 0) {
        line[length - 1] = 0;
        if (strcmp(line, "keys") == 0) {
            json_t *loaded = load_keys();
            if (loaded) {
                json_decref(keys);
                keys = loaded;
            }
            puts(loaded ? "loaded" : "not loaded");
            continue;
        }
        json_t *claims = verify(line, keys);
        puts(claims ? "accepts" : "rejects");
        json_decref(claims);
    }
    return 0;
}
`

func cJOSE(t *testing.T, s setup) instance {
	s.write(t, "verify.c", s.fill(s.block(t, "c"))+cMain)
	return reloading(s.script(t, s.compile(t, s.block(t, "sh"))))
}

// compile runs a command of a compiler, and returns the path of the program.
func (s setup) compile(t *testing.T, command string) string {
	t.Helper()
	build := exec.CommandContext(t.Context(), "sh", "-c", command)
	build.Dir = s.dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return filepath.Join(s.dir, "a.out")
}

func shellJOSE(t *testing.T, s setup) instance {
	return reloading(s.script(t, "sh", s.write(t, "verify.sh", s.fill(s.block(t, "sh"), "/var/lib/orders", s.dir)+`
load_keys
echo ready
while read -r line; do
  if [ "$line" = keys ]; then
    load_keys && echo loaded || echo "not loaded"
  elif verify "$line" >/dev/null; then
    echo accepts
  else
    echo rejects
  fi
done
`)))
}

var errNotLoaded = errors.New("the keys are not loaded")

// reloading returns an instance that loads the keys for the line "keys".
func reloading(i instance) instance {
	i.refresh = func() error {
		if i.call("keys") != "loaded" {
			return errNotLoaded
		}
		return nil
	}
	return i
}
