package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// A section is the configuration of a command.
type section interface {
	Load(in config.Input) ([]string, error)
	Ready() error
}

// refusals loads options, separated by blanks, after base ones; an option without a value is removed. In values _ is a blank, and | a line feed. It expects an error with a text,
// or none for "". Several errors are separated by line feeds: no other one may be reported.
func refusals(t *testing.T, command string, create func() section, base string, cases map[string]string) {
	t.Helper()
	for options, want := range cases {
		flags := make(map[string]string)
		for _, all := range []string{base, options} {
			for option := range strings.FieldsSeq(all) {
				name, text, ok := strings.Cut(option, "=")
				if flags[name] = strings.NewReplacer("_", " ", "|", "\n").Replace(text); !ok {
					delete(flags, name)
				}
			}
		}
		c := create()
		_, err := c.Load(config.Input{Flags: flags})
		if err == nil {
			err = c.Ready()
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		lines, all := strings.Split(text, "\n"), strings.Split(want, "\n")
		if (text == "") != (want == "") || len(lines) != len(all) {
			t.Errorf("%s %s: %v, want %q and no other error", command, options, err, want)
			continue
		}
		for i, part := range all {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%s %s: %v, want %q", command, options, err, want)
			}
		}
	}
}

// A ready is a section that is complete without any option.
type ready struct {
	load func(in config.Input) ([]string, error)
}

func (r ready) Load(in config.Input) ([]string, error) { return r.load(in) }
func (ready) Ready() error                             { return nil }

// TestRefusals gives options that contradict each other or have no effect, one at a time, and values at the edges of their ranges.
func TestRefusals(t *testing.T) {
	refusals(t, "alter", func() section { return config.NewAlter() }, "on=mysql://app@db1 table=shop.orders", map[string]string{
		"":                                "",
		"on":                              "--on is required",
		"table":                           "--table is required",
		"table=a.b.c":                     "--table: ",
		"table=orders":                    "--table: ",
		"max-lock-wait=1s":                "",
		"max-lock-wait=999ms":             "--max-lock-wait 999ms",
		"max-lock-wait=1500ms":            "--max-lock-wait 1.5s",
		"revert-window=24h":               "",
		"revert-window=25h":               "raise --keep-old",
		"control-socket=":                 "--control-socket is empty",
		"control-socket=off":              "",
		"max-lag=1ns":                     "--max-lag needs to know of whom",
		"replica=mysql://a@b":             "--replica has no effect",
		"max-lag=1ns replica=mysql://a@b": "",
		"max-p99=1ns":                     "--max-p99 needs to know who measures it",
		"gateway=http://g:1":              "",
		"gateway=ftp://g:1":               "want http://host:port",
		"gateway=http://g:1/x":            "want http://host:port",
		"gateway=http://g:1/?a=b":         "want http://host:port",
		"gateway-token=x":                 "--gateway-token has no effect",
		"gateway-ca=f":                    "--gateway-ca has no effect",
		"gateway-ca=f gateway=http://127.0.0.1:1":  "--gateway-ca has no effect",
		"gateway-ca=f gateway=https://127.0.0.1:1": "",
		"workers=0":      "--workers",
		"http=0.0.0.0:1": "is open to other machines",
	})
	refusals(t, "frontend", func() section { return config.NewFrontend() }, "downstream=http://m:1", map[string]string{
		"":                                     "",
		"downstream":                           "--downstream or --member is required",
		"downstream member=http://m:1":         "",
		"member=http://m:1":                    "exclude each other",
		"downstream-ca=f":                      "--downstream-ca has no effect",
		"downstream-ca=f downstream=https://m": "",
		"downstream-ca=f downstream=http://a,https://m": "",
		"downstream=ftp://m":                            "URL 1: want",
		"downstream=http://a,http://":                   "URL 2: want",
		"downstream=http://a?b=c":                       "URL 1: want",
		"max-shards=4 shards=5":                         "--shards 5 is more than --max-shards 4",
		"max-shards=4 shards=4":                         "",
	})
	refusals(t, "store", func() section { return config.NewStore() }, "bucket=file:///b grpc=127.0.0.1:2", map[string]string{
		"":                                        "",
		"bucket":                                  "--bucket is required",
		"process-bytes=63MiB query-bytes=64MiB":   "no query could run",
		"process-bytes=64MiB query-bytes=64MiB":   "",
		"query-timeout=0":                         "--query-timeout: want more than 0",
		"write-timeout=0":                         "--write-timeout: want more than 0",
		"sync-interval=999ms":                     "--sync-interval: want at least 1s",
		"sync-interval=1s":                        "",
		"tenants=a":                               "--tenants has no effect without --layout mimir",
		"tenants=a layout=mimir":                  "",
		"http=off grpc=off":                       "are both off",
		"http=off":                                "",
		"grpc=off":                                "",
		"http=127.0.0.1:2":                        "are the same address",
		"http=127.0.0.1:0 grpc=127.0.0.1:0":       "",
		"grpc-tls-cert=f":                         "need each other",
		"grpc-tls-key=f":                          "need each other",
		"grpc-tls-cert=f grpc-tls-key=f":          "",
		"grpc-tls-client-ca=f":                    "--grpc-tls-client-ca has no effect",
		"grpc=off grpc-tls-cert=f grpc-tls-key=f": "--grpc-tls-cert has no effect\n--grpc-tls-key has no effect",
		"grpc=off grpc-token=x":                   "--grpc-token has no effect",
		"grpc-token=x":                            "",
		"grpc-token=x grpc-token-file=f":          "exclude each other",
		"grpc=0.0.0.0:2":                          "it needs --grpc-tls-cert",
		"grpc=0.0.0.0:2 grpc-tls-cert=f grpc-tls-key=f": "",
		"cache-size=20GiB":                               "--cache-size has no effect",
		"cache-size=20GiB cache-dir=d":                   "",
		"cache-memcached-timeout=5s":                     "--cache-memcached-timeout has no effect",
		"cache-memcached-timeout=0":                      "--cache-memcached-timeout has no effect\nwant more than 0",
		"cache-memcached-timeout=5s cache-memcached=a:1": "",
		"cache-memcached=a":                              "--cache-memcached: ",
	})
	refusals(t, "rowstream", func() section { return config.NewRowstream() }, "from=mysql://app@db1", map[string]string{
		"":                                      "",
		"from":                                  "--from is required",
		"tls-cert=f":                            "need each other",
		"tls-key=f":                             "need each other",
		"tls-cert=f tls-key=f":                  "",
		"tls-client-ca=f":                       "--tls-client-ca has no effect",
		"token=x token-file=f":                  "exclude each other",
		"listen=0.0.0.0:1":                      "it needs --tls-cert or --token-file",
		"listen=0.0.0.0:1 token=x":              "",
		"listen=0.0.0.0:1 tls-cert=f tls-key=f": "",
		"listen=127.0.0.1:1 http=127.0.0.1:1":   "are the same address",
		"listen=127.0.0.1:0 http=127.0.0.1:0":   "",
	})
	serve := func() section { return ready{config.NewServe().Load} }
	refusals(t, "serve", serve, "", map[string]string{
		"tls-cert=f":                                                      "need each other",
		"tls-cert=f tls-key=f":                                            "",
		"client-tls=verify":                                               "--client-tls verify needs --tls-client-ca",
		"tls-client-ca=f":                                                 "has no effect without --client-tls verify",
		"client-tls=off tls-cert=f tls-key=f":                             "--tls-cert has no effect\n--tls-key has no effect",
		"backend-tls-ca=f":                                                "--backend-tls-ca has no effect unless",
		"backend-tls-ca=f backend-tls=verify-ca":                          "",
		"backend-tls-ca=f backend-tls=verify-identity":                    "",
		"backend-tls-ca=f backend-tls=required":                           "--backend-tls-ca has no effect unless",
		"backend-tls-ca=f copies=mysql://a@b copies-tls=verify-ca":        "",
		"control-tls=required":                                            "--control-tls has no effect",
		"control-tls=required control=mysql://a@b":                        "",
		"copies-tls=required":                                             "has no effect without --copies",
		"copies-get-public-key=true":                                      "has no effect without --copies",
		"call-sample-bytes=0":                                             "",
		"call-sample-bytes=1":                                             "--call-sample-bytes",
		"call-sample-bytes=1TiB":                                          "--call-sample-bytes",
		"http=off tag-labels=route":                                       "--tag-labels has no effect",
		"tag-labels=route":                                                "",
		"http=off copies=mysql://a@b":                                     "--copies has no effect",
		"http=off traces-otlp=http://t:1":                                 "--traces-otlp has no effect",
		"traces-otlp=http://t:1":                                          "",
		"traces-otlp=ftp://t:1":                                           "want http://host:4318",
		"traces-otlp=http://u@t:1":                                        "want http://host:4318",
		"traces-otlp=http://t:1?a=b":                                      "want http://host:4318",
		"listen=127.0.0.1:5 http=127.0.0.1:5":                             "--listen and --http are the same address",
		"listen=127.0.0.1:5 backend=127.0.0.1:5":                          "the gateway would call itself",
		"standby=db2:3306":                                                "--standby needs --standby-accounts",
		"standby-accounts=f":                                              "has no effect without --standby",
		"pool=transaction":                                                "--pool transaction needs --pool-accounts",
		"pool=transaction pool-accounts=f pool-max=2 pool-min=3":          "--pool-min is above --pool-max",
		"pool=transaction pool-accounts=f standby=s:1 standby-accounts=f": "",
		"pool-max=3":                                                      "has no effect with --pool session",
		"standby=db2:3306 standby-accounts=f":                             "",
		"standby=db1:3306 standby-accounts=f backend=db1:3306":            "equals --backend or --listen",
		"standby=127.0.0.1:5 standby-accounts=f listen=127.0.0.1:5":       "equals --backend or --listen",
		"standby=db2:3306 standby-accounts=f http=off":                    "--standby has no effect",
		"history-remote-write=http://p:9090/api/v1/write":                 "--history-remote-write has no effect without --bucket",
		"history-cache-dir=d":                                             "--history-cache-dir has no effect",
		"history-cache-memcached=a:1":                                     "--history-cache-memcached has no effect",
	})
	refusals(t, "serve", serve, "bucket=file:///b data-dir=d", map[string]string{
		"":                               "",
		"history-interval=1s":            "",
		"history-interval=999ms":         "--history-interval: want 1s to 1m",
		"history-interval=1m":            "",
		"history-interval=61s":           "--history-interval: want 1s to 1m",
		"history-local-age=2h":           "",
		"history-local-age=119m":         "--history-local-age: want at least 2h",
		"history-rollup-age=1h":          "--history-rollup-age: want at least",
		"history-retention=1h":           "--history-retention: want 0 or at least",
		"history-retention=0":            "",
		"history-max-ahead=1ms":          "--history-max-ahead: want at least",
		"history-retention-delay=1s":     "--history-retention-delay has no effect\n--history-retention-delay: want at least",
		"history-retention-dry-run=true": "--history-retention-dry-run has no effect",
		"history-retention-dry-run=true history-retention-bytes=1GiB":           "",
		"history-cache-size=20GiB":                                              "--history-cache-size has no effect",
		"history-cache-memcached-timeout=5s":                                    "--history-cache-memcached-timeout has no effect",
		"history-remote-write=http://p/w":                                       "",
		"history-remote-write=http://p":                                         "the URL has no path",
		"history-remote-write=http://p/":                                        "the URL has no path",
		"history-remote-write=ftp://p/w":                                        "want http://host:port/path",
		"history-remote-write=http://p/w#f":                                     "want http://host:port/path",
		"history-remote-write=http://:x@p/w":                                    "want http://host:port/path",
		"history-remote-write-tenant=a":                                         "has no effect without --history-remote-write",
		"history-remote-write-ca=f":                                             "has no effect without --history-remote-write",
		"history-remote-write-token-file=f":                                     "has no effect without --history-remote-write",
		"history-remote-write-version=1.0":                                      "has no effect without --history-remote-write",
		"history-remote-write=http://u:p@p/w history-remote-write-token-file=f": "exclude each other",
		"history-remote-write=http://p/w history-remote-write-token-file=f":     "",
		"history-remote-write=http://p/w history-remote-write-ca=f":             "--history-remote-write-ca has no effect",
		"history-remote-write=https://p/w history-remote-write-ca=f":            "",
		"history-remote-write=http://p/w history-remote-write-tenant=a_b":       "--history-remote-write-tenant: want printable",
		"history-remote-write=http://p/w history-remote-write-tenant=a~":        "",
	})
	copied := func() section { return config.NewCopy() }
	refusals(t, "copy", copied, "from=mysql://app@db1 to=mysql://app@db2 tables=shop.a", map[string]string{
		"":                                      "",
		"follow-until=caught-up":                "--follow-until has no effect",
		"follow=true follow-until=caught-up":    "",
		"heartbeat=off":                         "--heartbeat has no effect",
		"follow=true heartbeat=off":             "",
		"heartbeat-on-replica=true":             "--heartbeat-on-replica has no effect",
		"follow=true heartbeat-on-replica=true": "",
		"follow=true heartbeat=off heartbeat-on-replica=true": "--heartbeat-on-replica has no effect",
		"max-view-age=7m":                                               "--max-view-age has no effect",
		"follow=true max-view-age=7m":                                   "",
		"ignore-statement=x":                                            "--ignore-statement has no effect\n--ignore-statement: ",
		"ignore-statement=00112233445566778899aabbccddeeff":             "--ignore-statement has no effect",
		"follow=true ignore-statement=00112233445566778899aabbccddeeff": "",
		"from-token=x":                                                  "--from-token has no effect without --from tare://",
		"compress=zstd":                                                 "--compress has no effect without --from tare://",
		"from=tare://127.0.0.1:1":                                       "",
		"from=tare://127.0.0.1:1 compress=zstd from-token=x":            "",
		"from=tare://db1:1":                                             "say whether it speaks TLS",
		"from=tare://db1:1 from-tls=disabled":                           "",
		"from=tare://127.0.0.1:1 from-get-public-key=true":              "has no effect without --from mysql://",
		"from=tare://127.0.0.1:1 tables schema=shop":                    "tare rowstream lists no objects",
		"from=tare://127.0.0.1":                                         "want tare://host:port",
		"from=tare://u@127.0.0.1:1":                                     "want tare://host:port",
		"cutover=true":                                                  "--cutover needs --follow",
		"cutover=true follow=true":                                      "",
		"cutover=true follow=true follow-until=caught-up":               "omit --follow-until caught-up",
		"cutover=true follow=true cutover-hold=0":                       "--cutover-hold has no effect\n--cutover-hold: use more than 0",
		"cutover=true follow=true gateway=http://g:1 cutover-hold=30s":  "",
		"cutover=true follow=true cutover-hold=31s":                     "--cutover-hold has no effect\n--cutover-hold: use more than 0",
		"cutover-hold=31s":                                              "has no effect without --cutover",
		"cutover-close-pinned=1s":                                       "--cutover-close-pinned has no effect",
		"cutover=true follow=true cutover-close-pinned=1s":              "--cutover-close-pinned has no effect",
		"cutover=true follow=true cutover-close-pinned=1s gateway=http://127.0.0.1:1": "",
		"cutover=true follow=true from=tare://127.0.0.1:1 gateway=http://127.0.0.1:1": "needs --from mysql://",
		"gateway=http://127.0.0.1:1":                                                "--gateway has no effect",
		"gateway=http://127.0.0.1:1 max-p99=1ns":                                    "",
		"throttle-above=1":                                                          "--throttle-above has no effect",
		"throttle-above=1 throttle-query=SELECT_1":                                  "",
		"throttle-above=-1":                                                         "want a number of at least 0",
		"throttle-above=1e301":                                                      "want a number of at least 0",
		"throttle-server=mysql://a@b":                                               "--throttle-server has no effect",
		"throttle-server=mysql://a@b max-threads-running=1":                         "",
		"from=tare://127.0.0.1:1 max-threads-running=1":                             "need to know which server to ask",
		"from=tare://127.0.0.1:1 throttle-server=mysql://a@b max-threads-running=1": "",
		"control-socket=":                                                           "--control-socket is empty",
		"schema=a*":                                                                 "want the name of a schema",
		"schema=a? tables":                                                          "want the name of a schema",
		"schema=a,a tables":                                                         "--schema names a twice",
		"schema=a,,b tables":                                                        "want the name of a schema",
		"exclude=shop.b":                                                            "--exclude has no effect",
		"tables schema=shop exclude=shop.b":                                         "",
		"tables schema=shop exclude=shop":                                           "--exclude: ",
		"objects=none":                                                              "--objects has no effect",
		"tables schema=shop objects=none":                                           "",
		"tables schema=shop objects=views":                                          "",
		"tables schema=shop objects=view":                                           "--objects: want all, none",
		"tables schema=shop objects=xs":                                             "--objects: want all, none",
		"users=true":                                                                "--users requires --schema",
		"tables schema=shop users=true":                                             "",
		"tables schema=shop exclude-users=a":                                        "--exclude-users has no effect",
		"tables schema=shop users=true exclude-users=a":                             "",
		"tables schema=shop users=true exclude-users=a,":                            "--exclude-users has an empty pattern",
		"tables schema=shop grant-existing=a":                                       "--grant-existing has no effect",
		"tables=shop.a=x.b schema=shop":                                             "copies its tables under their names",
		"tables=shop.*=x":                                                           "tables by patterns keep their names",
		"tables=a":                                                                  "--tables: ",
		"where=shop.b:_id":                                                          "--where: ",
		"only-shard=shop.a:_id=1/0":                                                 "--only-shard: ",
		"columns=shop.b:_id":                                                        "--columns: ",
		"map-collation=a":                                                           "--map-collation \"a\" is not of the form",
		"max-lag=1ns replica=mysql://":                                              "--replica: ",
		"from=file://host/x tables":                                                 "--from: ",
		"from=mysql://":                                                             "or tare://host:port of a tare rowstream",
		"from=tare://127.0.0.1:99999":                                               "--from: ",
		"from=tare://%zz:1":                                                         "want tare://host:port",
		"from=tare://127.0.0.1:1/x":                                                 "want tare://host:port",
		"from=tare://127.0.0.1:1?a=b":                                               "want tare://host:port",
		"from=tare://127.0.0.1:1#a":                                                 "want tare://host:port",
		"to=file://host/x":                                                          "--to: ",
		"to=mysql://":                                                               "or file:///directory or s3://bucket/prefix for a dump",
		"to-tls=none":                                                               "--to-tls: ",
		"to to-shard=mysql://a@b":                                                   "--to-shard is given once\n--to-shard requires --follow",
		"gateway-token=x gateway-token-file=f gateway=http://127.0.0.1:1 max-p99=1ns": "exclude each other",
		"throttle-query=SELECT_1 throttle-patience=1s":                                "",
		"throttle-patience=1s": "--throttle-patience has no effect",
	})
	sharded := "from=mysql://app@db1 to-shard=mysql://a@b|mysql://a@c follow=true shard-by=shop.a:_hash(id) tables=shop.a"
	refusals(t, "copy", copied, sharded, map[string]string{
		"":                                      "",
		"to=mysql://a@d":                        "--to and --to-shard",
		"to=file:///d":                          "--follow: a dump is of one point in time\n--to and --to-shard",
		"follow":                                "--to-shard requires --follow",
		"to-shard=mysql://a@b|mysql://c@b":      "--to-shard names b:3306 twice",
		"to-shard=mysql://a@b||mysql://c@d":     "",
		"tables schema=shop":                    "--to-shard requires --tables with names",
		"shard-by":                              "--shard-by is missing for shop.a",
		"shard-by=shop.b:_hash(id)":             "--shard-by: ",
		"shard-by=shop.a:_hash(id)|shop.a:_all": "--shard-by names shop.a twice",
		"shard-by=shop.a:_all":                  "",
		"shard-by=shop.a:_lookup(id,_shop.l)":   "",
		"from=tare://127.0.0.1:1 shard-by=shop.a:_lookup(id,_shop.l)": "--shard-by lookup requires --from mysql://",
		"tables=shop.a,shop.b":                                "--shard-by is missing for shop.b",
		"cutover=true":                                        "",
		"cutover=true from=tare://127.0.0.1:1":                "--cutover with --to-shard requires --from mysql://",
		"cutover=true heartbeat-on-replica=true":              "excludes --heartbeat-on-replica",
		"cutover=true heartbeat=off":                          "requires heartbeats",
		"cutover=true gateway=http://127.0.0.1:1":             "uses no --gateway",
		"cutover=true gateway=http://127.0.0.1:1 max-p99=1ns": "",
	})
	refusals(t, "copy", copied, "from=mysql://app@db1 to=file:///dump tables=shop.a", map[string]string{
		"":                              "",
		"from=file:///other":            "are both dumps",
		"follow=true":                   "--follow: a dump is of one point in time",
		"to-tls=required":               "--to-tls has no effect",
		"to-get-public-key=true":        "has no effect on a dump",
		"state-schema=x":                "--state-schema has no effect",
		"keep-indexes=true":             "--keep-indexes has no effect",
		"map-collation=a=b":             "--map-collation has no effect",
		"columns=shop.a:_id":            "--columns: a dump has all columns",
		"control-socket=s":              "--control-socket has no effect",
		"control-socket=off":            "",
		"tables=shop.a=shop.b":          "a dump has the names of the source",
		"tables=shop.a=shop.a":          "",
		"where=shop.a:_id_>_5":          "",
		"tables schema=shop users=true": "--users: a dump has no accounts",
	})
	refusals(t, "copy", copied, "from=file:///dump to=mysql://app@db2", map[string]string{
		"":                                   "",
		"from-tls=required":                  "--from-tls has no effect",
		"from-get-public-key=true":           "has no effect without --from mysql://",
		"where=shop.a:_id_>_5 tables=shop.a": "--where: a dump is no server",
		"only-shard=shop.a:_id=1/4 tables=shop.a": "",
		"chunk-bytes=1MiB":                        "--chunk-bytes has no effect",
		"columns=shop.a:_id tables=shop.a":        "",
		"keep-indexes=true":                       "",
		"max-threads-running=1":                   "need to know which server to ask",
	})
}

// TestLoadAccounts reads files of accounts. Errors contain nothing of them.
func TestLoadAccounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"app: swordfish\nnone: \"\"\n", 0o600, ""},
		{"app: swordfish\n", 0o400, ""},
		{"app: swordfish\n", 0o640, "may be read or written by others (mode 0640)"},
		{"app: swordfish\n", 0o601, "may be read or written by others (mode 0601)"},
		{"app: swordfish\n" + strings.Repeat("#\n", 4<<20), 0o600, "want at most 8388608"},
		{"a: [swordfish", 0o600, "is not YAML"},
		{"", 0o600, "has no accounts"},
		{"# none", 0o600, "has no accounts"},
		{"- swordfish", 0o600, ":1: want lines such as"},
		{"app: swordfish\nb: [swordfish]", 0o600, ":2: want a user and a password"},
		{"app: swordfish\nb:", 0o600, ":2: want a user and a password"},
		{"app: swordfish\n[a]: swordfish", 0o600, ":2: want a user and a password"},
		{"app: swordfish\nb: x\napp: x", 0o600, ":3: duplicate user"},
	} {
		write(c.text, c.mode)
		all, err := config.LoadAccounts(path)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "swordfish")) {
			t.Errorf("%.40q with mode %o: %v, want %q", c.text, c.mode, err, c.want)
		}
		if password := all["app"]; err == nil && password.Reveal() != "swordfish" {
			t.Errorf("the password is %q", password.Reveal())
		}
	}
	if _, err := config.LoadAccounts(path + "-none"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
}

// TestReadSecretFile reads the first line of a file.
func TestReadSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{"a": "a", "a\n": "a", "a\r\nb\n": "a", " a \n": " a ", "": "", "\na": "", "\r\n": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := config.ReadSecretFile(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := config.ReadSecretFile(path + "-none"); err == nil {
		t.Error("a file that does not exist is read")
	}
}
