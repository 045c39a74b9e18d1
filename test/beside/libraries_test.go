package beside_test

import "testing"

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
