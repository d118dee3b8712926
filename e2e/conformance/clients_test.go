//go:build e2e

package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

var (
	flagClients       = flag.String("conformance.clients", "", "suites of clients, of clientSuites, or all; when empty, none")
	flagClientProfile = flag.String("conformance.client-profile", "full", "profile of all units of these suites")
)

// A clientSuite is the test suite of a client or application. Its commands are those of a POSIX shell.
//
// They have in their environment SUITE, the directory of the unpacked source, and TOOLS, that of the programs that suites
// share. As units run, they also have UNIT, their names; WORK, an empty directory; ROOT, that of this repository; CACHES,
// the home directory outside of the suite; and the server's DB_HOST, DB_PORT, DB_USER, DB_PASSWORD and DB_NAME.
type clientSuite struct {
	name    string
	fetch   string // creates SUITE, unless it exists
	prepare string // installs and compiles programs that fetch does not unpack
	version string // prints the version
	units   string // prints the parts of the suite that can run alone, one per line
	setup   string // statements before each unit
	run     string // runs UNIT, the names of one or more units
	batch   int    // units in one run; 0: 1
	parse   func(work string, output []byte) (map[string]string, error)
	left    []leftOut // units that cannot run here
}

// A leftOut are units that do not run, with the reason.
type leftOut struct {
	units  *regexp.Regexp
	mysql  bool // on MySQL only
	reason string
}

// A clientUnit are the parts of a suite that run together.
type clientUnit struct {
	suite *clientSuite
	dir   string // of the suite
	names []string
}

// TestClientSuites runs the suites of clients directly and through the gateway, as TestConformance does the servers' own.
func TestClientSuites(t *testing.T) {
	if *flagClients == "" {
		t.Skip("-conformance.clients names no suite")
	}
	dir := *flagDir
	if dir == "" {
		dir = t.TempDir()
	}
	must(t, os.MkdirAll(dir, 0o755))
	journal, err := openJournal(filepath.Join(dir, "clients.jsonl"))
	must(t, err)
	defer journal.file.Close()
	tools, err := filepath.Abs(filepath.Join("..", "..", ".tools"))
	must(t, err)
	wanted := regexp.MustCompile(*flagTests)
	table := &clientTable{}
	for i := range clientSuites {
		s := &clientSuites[i]
		if *flagClients != "all" && !slices.Contains(strings.Split(*flagClients, ","), s.name) {
			continue
		}
		dir := filepath.Join(tools, "clients", s.name)
		must(t, s.install(t.Context(), dir))
		version, err := s.shell(t.Context(), dir, s.version)
		must(t, err)
		names, err := s.shell(t.Context(), dir, s.units)
		must(t, err)
		for server := range strings.SplitSeq(*flagServers, ",") {
			servers, err := openSuite(tools, server)
			must(t, err)
			var chosen []string
			var units []*clientUnit
			for _, name := range strings.Fields(names) {
				left := slices.IndexFunc(s.left, func(l leftOut) bool { return l.units.MatchString(name) && (!l.mysql || servers.mysql) })
				switch {
				case !wanted.MatchString(s.name + "." + name):
				case left >= 0:
					table.leave(server, s.name, s.left[left].reason)
				default:
					chosen = append(chosen, name)
				}
			}
			for names := range slices.Chunk(chosen, max(1, s.batch)) {
				units = append(units, &clientUnit{s, dir, names})
			}
			if *flagSample > 0 && *flagSample < len(units) {
				rand.New(rand.NewPCG(testseed.New(t), spread(server, s.name))).Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
				units = units[:*flagSample]
			}
			runUnits(t, servers, units, journal, *flagDir)
			for _, u := range units {
				table.add(journal.verdicts[u.in(server)], strings.TrimSpace(version))
			}
		}
	}
	checkLent(t)
	text := table.String()
	must(t, os.WriteFile(filepath.Join(dir, "clients.md"), []byte(text), 0o644))
	t.Log("\n" + text)
	for _, text := range table.different {
		t.Error(text)
	}
}

// in returns the name of the unit on a server, in the journal.
func (u *clientUnit) in(server string) string {
	name := strings.Join([]string{server, u.suite.name, u.names[0]}, "/")
	if n := len(u.names); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	if *flagClientProfile != "full" {
		name += "/" + *flagClientProfile
	}
	return name
}

// repeat returns the command that runs a case again, with those that cannot run apart from it.
func (u *clientUnit) repeat(server, name string) string {
	one := u.names[0]
	for _, n := range u.names {
		if strings.Contains(name, n) {
			one = n
		}
	}
	return fmt.Sprintf("make client-suites CLIENTS=%s CONFORMANCE='-conformance.servers=%s -conformance.client-profile=%s -conformance.tests=^%s$$'",
		u.suite.name, server, *flagClientProfile, regexp.QuoteMeta(u.suite.name+"."+one))
}

// install fetches and prepares a suite.
func (s *clientSuite) install(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		if _, err := s.shell(ctx, dir, s.fetch); err != nil {
			return err
		}
	}
	_, err := s.shell(ctx, dir, s.prepare)
	return err
}

// prelude has the functions that several suites fetch sources and packages with.
const prelude = `set -eu
# A Python that is apart from the machine's, with the packages that suites need.
export PIP_DISABLE_PIP_VERSION_CHECK=1
PATH="$TOOLS/python/bin:$PATH"
python() {
	[ -x "$TOOLS/python/bin/python3" ] || {
		.ci/packages python3 gcc mariadb_config pkg-config # mysqlclient is compiled
		python3 -c "import ensurepip" 2>/dev/null || .ci/packages python3-venv
		python3 -m venv "$TOOLS/python"
	}
	"$TOOLS/python/bin/python3" -m pip install -q "$@" >&2
}
# Unpacks a source archive of a Python package.
sdist() {
	python --upgrade setuptools wheel
	rm -rf "$SUITE.sdist"
	"$TOOLS/python/bin/python3" -m pip download -q --no-deps --no-build-isolation --no-binary :all: -d "$SUITE.sdist" "$1" >&2
	mkdir "$SUITE.new"
	tar -xf "$SUITE.sdist"/* -C "$SUITE.new" --strip-components=1
	rm -rf "$SUITE.sdist"
	mv "$SUITE.new" "$SUITE"
}
`

// shell runs commands of a suite in the root of this repository, and returns what they print.
func (s *clientSuite) shell(ctx context.Context, dir, commands string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", prelude+commands)
	var errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = filepath.Join("..", ".."), append(append(os.Environ(), "SUITE="+dir, "TOOLS="+filepath.Dir(dir)), env...), &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("suite %s: %w: %s\n%s", s.name, err, commands, &errs)
	}
	return string(out), nil
}

// runUnits runs those units that the journal has no final verdict of.
func runUnits(t *testing.T, servers *suiteDir, units []*clientUnit, journal *journal, keep string) {
	todo := make(chan *clientUnit, len(units))
	for _, u := range units {
		if v := journal.verdicts[u.in(servers.name)]; v == nil || v.Verdict == different {
			todo <- u
		}
	}
	close(todo)
	if keep == "" {
		keep = t.TempDir()
	}
	var workers errgroup.Group
	for range min(*flagWorkers, len(todo)) {
		workers.Go(func() error {
			dir, err := os.MkdirTemp("", "conf-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			r, err := newRig(servers, dir)
			if err != nil {
				return err
			}
			r.plain = true
			defer func() {
				_ = r.close()
				r.socket.Close()
			}()
			for u := range todo {
				v, err := r.judgeUnit(t.Context(), u, keep)
				if err != nil {
					return errors.Join(fmt.Errorf("%s: %w", u.in(servers.name), err), r.close())
				}
				if err := journal.add(v); err != nil {
					return err
				}
				t.Logf("%d left: %s: %s, %d cases %v %.1f s", len(todo), v.Case, v.Verdict, v.Cases.Run, v.Accepted, v.Seconds)
			}
			return r.close()
		})
	}
	must(t, workers.Wait())
}

// counts are the cases of units: of those that run, some are skipped by the suite or fail, on both ways.
type counts struct{ Run, Equal, Skipped, Failed, Accepted, Different, Excluded int }

// judgeUnit runs a unit's legs and compares each of its cases, as judge does.
func (r *rig) judgeUnit(ctx context.Context, u *clientUnit, keep string) (*verdict, error) {
	v := &verdict{Case: u.in(r.suite.name), Server: r.suite.name, Suite: u.suite.name, Verdict: equal}
	started := time.Now()
	defer func() { v.Seconds = float64(time.Since(started).Milliseconds()) / 1000 }()
	var direct []*leg
	again := func() error {
		l, err := r.unitLeg(ctx, u, "", *flagLimit)
		direct = append(direct, l)
		return err
	}
	if err := again(); err != nil {
		return v, err
	}
	if limit := direct[0].limit; limit != "" {
		v.Verdict, v.Reason = excluded, "reaches the limit of "+limit+" directly"
		return v, nil
	}
	through, err := r.unitLeg(ctx, u, *flagClientProfile, *flagLimit+3*direct[0].took)
	if err != nil {
		return v, err
	}
	names := map[string]bool{}
	for name := range maps.All(direct[0].cases) {
		names[name] = true
	}
	for name := range maps.All(through.cases) {
		names[name] = true
	}
	left := map[string]bool{} // whose results differ so far
	for name := range names {
		listed := u.suite.name
		if isPooled(*flagClientProfile) {
			listed = r.suite.name + "/" + u.suite.name + "/" + name
		}
		if through.cases[name] == direct[0].cases[name] {
			v.Cases.add(through.cases[name])
			if says := pooledStale(listed); says != "" {
				v.Verdict, v.Different = different, v.Different+fmt.Sprintf("--- %s: %s: equal, although a difference is listed: %s\n", v.Case, name, says)
			}
		} else if reason := pooledReason(listed, direct[0].cases[name], through.cases[name]); reason != "" {
			v.Cases.Run++
			v.Cases.Accepted++
			v.Accepted = append(v.Accepted, reason)
		} else if reason := acceptedCase(u.suite.name, name, direct[0].cases[name], through.cases[name]); reason != "" {
			v.Cases.Run++
			v.Cases.Accepted++
			v.Accepted = append(v.Accepted, reason)
		} else {
			left[name] = true
		}
	}
	for i := 0; i < moreDirect && len(left) > 0; i++ {
		if err := again(); err != nil {
			return v, err
		}
		second, err := r.unitLeg(ctx, u, *flagClientProfile, *flagLimit+3*direct[0].took)
		if err != nil {
			return v, err
		}
		for name := range left {
			switch last := direct[len(direct)-1].cases[name]; {
			case last == through.cases[name]:
				v.Cases.add(last)
			case last != direct[0].cases[name]:
				v.Cases.Excluded++
				v.Unstable = append(v.Unstable, name+": direct runs differ")
			case last == second.cases[name]:
				v.Cases.Excluded++
				v.Unstable = append(v.Unstable, name+": runs through the gateway differ, one equals the direct ones")
			default:
				continue
			}
			delete(left, name)
		}
	}
	kept := strings.ReplaceAll(v.Case, "/", "-")
	if len(left) == 0 {
		if v.Cases.Failed > 0 {
			err = save(filepath.Join(keep, "early", kept), direct[0], through)
		}
		return v, err
	}
	v.Verdict, v.Cases.Different = different, len(left)
	v.Cases.Run += len(left)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		v.Different += fmt.Sprintf("--- %s: %s\n    directly: %s\n    through Tare: %s\n    repeat: %s\n", v.Case, name,
			cmp.Or(direct[0].cases[name], "no such case"), cmp.Or(through.cases[name], "no such case"), u.repeat(r.suite.name, name))
	}
	return v, save(filepath.Join(keep, "different", kept), direct[0], through)
}

// add counts a case whose result is equal.
func (c *counts) add(result string) {
	c.Run++
	c.Equal++
	switch {
	case strings.HasPrefix(result, "skip"):
		c.Skipped++
	case strings.HasPrefix(result, "fail"):
		c.Failed++
	}
}

// unitLeg runs a unit once, on a server in the state of a fresh one: directly, or through the gateway of a profile.
func (r *rig) unitLeg(ctx context.Context, u *clientUnit, profile string, limit time.Duration) (*leg, error) {
	if err := r.ready(ctx, nil); err != nil {
		return nil, err
	}
	port := r.server.Port()
	if profile != "" {
		g, err := r.through(ctx, profile)
		if err != nil {
			return nil, err
		}
		port = g.port
	}
	if _, err := r.db.ExecContext(ctx, cmp.Or(u.suite.setup, "DO 1")); err != nil {
		return nil, fmt.Errorf("set the database up: %w", err)
	}
	work := filepath.Join(r.vardir, "unit") // the same in all legs: failures print it
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o777), os.Chmod(work, 0o777)); err != nil {
		return nil, err
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	// The limit of the size of files is that of the shell's builtin, in blocks of 512 bytes.
	cmd := exec.Command("/bin/sh", "-c", "ulimit -c 0; ulimit -f "+strconv.Itoa(4*maxFile/512)+"\n"+prelude+"cd \"$WORK\"\n"+u.suite.run)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "ROOT="+root, "SUITE="+u.dir, "TOOLS="+filepath.Dir(u.dir), "UNIT="+strings.Join(u.names, " "), "WORK="+work, "HOME="+work, "CACHES="+os.Getenv("HOME"),
		"DB_HOST=127.0.0.1", "DB_PORT="+strconv.Itoa(port), "DB_USER="+testmysql.RootUser, "DB_PASSWORD="+testmysql.Password, "DB_NAME=test")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second // of programs that the test left behind
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the suite: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	l := &leg{port: port, limit: r.watch(ctx, cmd.Process.Pid, done, limit)}
	l.took = time.Since(started)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes of the test
	l.code, l.output = cmd.ProcessState.ExitCode(), output.Bytes()
	if l.cases, err = u.suite.parse(work, l.output); err != nil && l.code == 0 {
		return nil, err
	}
	if len(l.cases) == 0 || l.limit != "" { // it did not come to an end: this is the result
		l.cases = map[string]string{"(whole)": fmt.Sprintf("fail: exit code %d, limit %q, %v: %s", l.code, l.limit, err, l.output)}
	}
	for name, text := range l.cases {
		l.cases[name] = canonical(text, port)
	}
	if err := r.dropSchemas(ctx); err != nil {
		l.cases["(server)"] = "fail: " + err.Error()
	}
	_, err = r.settle(ctx)
	return l, errors.Join(err, ctx.Err())
}

// dropSchemas leaves the server's own schemas and an empty one for tests.
func (r *rig) dropSchemas(ctx context.Context) error {
	rows, err := r.db.QueryContext(ctx, "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')")
	if err != nil {
		return err
	}
	defer rows.Close()
	statements := "CREATE DATABASE test"
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		statements = "DROP DATABASE `" + strings.ReplaceAll(name, "`", "``") + "`;" + statements
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = r.db.ExecContext(ctx, statements)
	return err
}

// canonicals are what differs between two runs on one server: times, ids of connections, addresses of memory, names of temporary files.
var canonicals = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`0x[0-9a-f]{6,16}\b`), "0x…"},
	{regexp.MustCompile(`\(conn=\d+\)`), "(conn=…)"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|µs|s|sec|seconds)\b`), "… s"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?`), "(time)"},
}

// canonical returns a case's result without what differs between two runs.
func canonical(text string, port int) string {
	text = strings.ReplaceAll(text, strconv.Itoa(port), "(port)")
	for _, c := range canonicals {
		text = c.pattern.ReplaceAllString(text, c.by)
	}
	return strings.TrimSpace(text)
}
