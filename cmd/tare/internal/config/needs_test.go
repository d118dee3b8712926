package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// needVariants are command lines of each subcommand under which each need of an option is met once, and once not.
func needVariants(t *testing.T) map[string][]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tare.yaml")
	if err := os.WriteFile(file, []byte("serve:\n  rules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		log      = " log-file=q.log log-rotate-size=1MiB"
		throttle = " max-lag=1ns replica=mysql://a@r gateway=https://g:1 max-p99=1ns max-threads-running=1"
		history  = " bucket=file:///b history-retention=9600h history-cache-dir=d history-cache-memcached=h:1 history-remote-write=https://h/api"
	)
	return map[string][]string{
		"serve": {
			"", "http=off", "client-tls=off", "history-max-digests=0", "backend-tls=required", "copies=mysql://a@h copies-tls=required",
			"bucket=file:///b history-remote-write=http://h/api", "log-file=-", "pool=transaction pool-accounts=f",
			"config=" + file + " control=mysql://a@h copies=mysql://a@h standby=s:1 standby-accounts=f tag-labels=a" + history + log,
			"client-tls=verify tls-client-ca=ca backend-tls=verify-ca control=mysql://a@h control-tls=preferred copies=mysql://a@h copies-tls=preferred",
		},
		"store": {
			"", "http=off grpc=127.0.0.1:0", "grpc=127.0.0.1:0", "layout=thanos",
			"layout=mimir grpc=127.0.0.1:0 grpc-tls-cert=c grpc-tls-key=k cache-dir=d cache-memcached=h:1" + log,
		},
		"frontend":  {"", "downstream=http://h:1", "downstream=https://h:1" + log},
		"rowstream": {"", "http=off", "from-tls=verify-ca tls-cert=c tls-key=k" + log},
		"copy": {
			"", "http=127.0.0.1:0", "from=file:///d to=mysql://a@h", "from=mysql://a@h to=file:///d", "from=tare://h:1 from-tls=required to=mysql://a@h to-tls=required",
			"from-tls=verify-ca", "tables=a.*", "schema=a users=true", "follow=true heartbeat=off", "cutover=true follow=true",
			"follow=true cutover=true to-shard=mysql://a@h\nmysql://a@i", "throttle-query=SELECT", "gateway=http://g:1",
			"follow=true cutover=true from=mysql://a@h to=mysql://a@i" + throttle,
		},
		"alter": {"", "http=127.0.0.1:0", "keep-old=0", "on-tls=verify-ca", "gateway=http://g:1", throttle},
	}
}

// TestNeeds gives each option to each variant of its subcommand, by a flag, in a file and in the environment. Each need that
// the option declares is met in one variant, and reported in another one.
func TestNeeds(t *testing.T) {
	variants := needVariants(t)
	for _, newCommand := range []func() Command{
		func() Command { return NewServe() }, func() Command { return NewStore() }, func() Command { return NewFrontend() },
		func() Command { return NewRowstream() }, func() Command { return NewCopy() }, func() Command { return NewAlter() },
	} {
		section := newCommand().Set()
		for _, o := range section.options {
			if len(o.needs) == 0 {
				continue
			}
			seen := make(map[string]bool)
			for _, variant := range variants[section.Name] {
				try := needTry{newCommand: newCommand, o: o, variant: variant}
				without := try.byFlag(t)
				if !seen[without] {
					try.byOthers(t, without)
				}
				seen[without] = true
				for part := range strings.SplitSeq(without, ", and ") {
					seen[part] = true
				}
			}
			if !seen[""] {
				t.Errorf("tare %s: --%s has an effect in no variant", section.Name, o.Name)
			}
			for _, n := range o.needs {
				if !seen[n.without] {
					t.Errorf("tare %s: --%s has an effect in all variants, and should have none %s", section.Name, o.Name, n.without)
				}
			}
		}
	}
}

// A needTry gives one option to one variant.
type needTry struct {
	newCommand func() Command
	o          *Option
	variant    string

	flags map[string]string // those of the variant, without the option
	value string
}

// byFlag returns the unmet needs that are reported, "" if there are none.
func (n *needTry) byFlag(t *testing.T) string {
	t.Helper()
	n.flags = make(map[string]string)
	for f := range strings.SplitSeq(n.variant, " ") {
		if k, v, ok := strings.Cut(f, "="); ok {
			n.flags[k] = v
		}
	}
	var ok bool
	if n.value, ok = n.flags[n.o.Name]; !ok {
		n.value = sampleOf(t, n.newCommand().Set().Lookup(n.o.Name))
	}
	delete(n.flags, n.o.Name)
	flags := maps.Clone(n.flags)
	flags[n.o.Name] = n.value
	return n.report(Input{Flags: flags}, "--"+n.o.Name)
}

// byOthers checks that a file and the environment report the same as the flag.
func (n *needTry) byOthers(t *testing.T, want string) {
	t.Helper()
	if got := n.report(Input{Flags: n.flags, Environ: []string{n.o.Env() + "=" + n.value}}, "environment variable "+n.o.Env()); got != want {
		t.Errorf("%s, %s=%s: the environment is said to have no effect %q, the flag %q", n.variant, n.o.Env(), n.value, got, want)
	}
	if !n.o.InFile() || n.flags[configOption] != "" || n.o.Name == "rules-dry-run" { // which a file gives its effect
		return
	}
	flags := maps.Clone(n.flags)
	flags[configOption] = filepath.Join(t.TempDir(), "tare.yaml")
	text := fmt.Sprintf("%s:\n  %s: %q\n", n.newCommand().Set().Name, n.o.Name, n.value)
	if err := os.WriteFile(flags[configOption], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := n.report(Input{Flags: flags}, flags[configOption]+":2: "+n.o.Name); got != want {
		t.Errorf("%s, in a file %s: %s: is said to have no effect %q, the flag %q", n.variant, n.o.Name, n.value, got, want)
	}
}

// report returns the needs that an error or a warning with a label names.
func (n *needTry) report(in Input, label string) string {
	warnings, err := n.newCommand().Load(in)
	text := strings.Join(warnings, "\n")
	if err != nil {
		text += "\n" + err.Error()
	}
	for line := range strings.SplitSeq(text, "\n") {
		if without, ok := strings.CutPrefix(line, label+" has no effect "); ok {
			return without
		}
	}
	return ""
}

// sampleOf returns a value that an option accepts and that is not its default.
func sampleOf(t *testing.T, o *Option) string {
	t.Helper()
	words := strings.Split(o.Kind, "|")
	for _, text := range slices.Concat(words[min(1, len(words)-1):], []string{
		"true", "3", "3s", "12m", "120h", "3KiB", "3MiB", "96MiB", "3/s", "0640", "0.5", "127.0.0.1:9", "h:9", "mysql://a@h", "file:///b", "http://h:9", "https://h:9/api", "a=b", "a.b", "a.*",
		"2/3", "2026-01-01T00:00:00Z", "utf8mb4_bin=latin1_bin", "0123456789abcdef", "total_ns>10ms", "promql-experimental-functions", "x",
	}) {
		if o.set(text, Origin{FromFlag, "--" + o.Name}) == nil && o.Text() != o.Default && o.Text() != "" {
			return text
		}
	}
	t.Fatalf("no sample of --%s (%s) is accepted", o.Name, o.Kind)
	return ""
}

// TestAlwaysUsed lists the options that have an effect with all values of the others: one that is not listed declares what it needs.
func TestAlwaysUsed(t *testing.T) {
	always := map[string]string{
		"serve": `config listen backend http control pool client-tls backend-tls plan-cache-bytes statement-memory max-connections max-user-connections
			max-unauthenticated max-unauthenticated-per-address connect-timeout handshake-timeout idle-timeout drain-timeout cpus return-idle-memory
			bucket log-file diag-format diag-level umask`,
		"store": `config bucket http grpc layout shard min-time max-time data-dir query-bytes process-bytes index-cache-bytes cache-dir cache-memcached
			response-bytes memory-limit tenant-limits max-series max-chunks query-timeout sync-interval deletion-delay queue-timeout bucket-timeout
			bucket-tries bucket-hedge write-timeout partial eager-headers header-idle traces-otlp drain-timeout log-file diag-format diag-level umask`,
		"frontend": `config downstream member http downstream-encoding shards max-shards max-requests response-bytes merge-bytes timeout hedge
			traces-otlp drain-timeout decoder decoder-compare web-config-file web-accounts-file http-allowed-hosts http-max-connections log-file
			log-redact log-filter log-slower-than log-more-rows-than log-errors-only log-one-in log-per-digest log-ring-bytes log-max-text
			diag-format diag-level umask`,
		"rowstream": `config from from-tls listen http tls-cert tls-key token token-file max-snapshots max-workers max-follows drain-timeout log-file
			diag-format diag-level umask`,
		"copy": `config from to from-shard to-shard tables schema users where only-shard columns workers patience follow cutover verify max-lag
			max-threads-running throttle-query max-p99 http diag-format diag-level umask`,
		"alter": `config on on-tls table max-lock-wait lock-tries max-inplace workers chunk-bytes max-view-age patience keep-old on-event max-lag
			max-threads-running max-p99 gateway control-socket http diag-format diag-level umask`,
	}
	for _, c := range Commands() {
		var got []string
		for _, o := range c.Set().options {
			if len(o.needs) == 0 {
				got = append(got, o.Name)
			}
		}
		if want := strings.Fields(always[c.Set().Name]); !slices.Equal(got, want) {
			t.Errorf("tare %s: options without needs:\n%v, want\n%v", c.Set().Name, got, want)
		}
	}
}
