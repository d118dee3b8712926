//go:build e2e

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/internal/testseed"
)

var (
	flagServers   = flag.String("conformance.servers", "mariadb-10.11,mariadb-11.8,mysql", "servers, of those in .tools")
	flagSuites    = flag.String("conformance.suites", strings.Join(allSuites, ","), "suites")
	flagTests     = flag.String("conformance.tests", "", "regular expression of SUITE.TEST")
	flagProtocols = flag.String("conformance.protocols", "", "protocols of every test: "+strings.Join(protocols, ",")+"; when empty, plain and one other each")
	flagProfiles  = flag.String("conformance.profiles", "bare,full,tls", "profiles, of which each case has one")
	flagSample    = flag.Int("conformance.sample", 0, "cases of each server, chosen by the seed; 0: all")
	flagFixed     = flag.Bool("conformance.fixed", false, "run the cases of fixedCases only")
	flagShard     = flag.String("conformance.shard", "0/1", "the part I/N of the cases")
	flagWorkers   = flag.Int("conformance.workers", 6, "concurrent cases")
	flagLimit     = flag.Duration("conformance.limit", 90*time.Second, "time of a direct leg; through the gateway, three times what that took are added")
	flagDir       = flag.String("conformance.dir", "", "directory of the journal, of the results that differ, and of the table; a temporary one when empty")
	flagTare      = flag.String("conformance.tare", "", "another tare binary")
)

var allSuites = []string{
	"main", "innodb", "json", "funcs_1", "gcol", "vcol", "versioning", "period", "sql_sequence", "compat", "roles",
	"handler", "parts", "engines", "sys_vars", "perfschema",
}

// timeZone is that of the suites' runner, for servers and test programs.
const timeZone = "GMT-3"

// binary is the tare under test; set by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "tare-conf-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = *flagTare; binary == "" && *flagRowEvents == 0 {
		binary = filepath.Join(dir, "tare")
		if out, err := exec.Command("go", "build", "-C", "../..", "-o", binary, "./cmd/tare").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build tare: %v\n%s", err, out)
			return 1
		}
	}
	if err := os.Setenv("TZ", timeZone); err != nil { // the servers inherit it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestConformance runs the selected cases that the journal does not have, and prints the table of all.
func TestConformance(t *testing.T) {
	dir := *flagDir
	if dir == "" {
		dir = t.TempDir()
	}
	must(t, os.MkdirAll(dir, 0o755))
	journal, err := openJournal(filepath.Join(dir, "journal.jsonl"))
	must(t, err)
	defer journal.file.Close()
	s := &selection{profiles: strings.Split(*flagProfiles, ","), sample: *flagSample}
	if *flagProtocols != "" {
		s.protocols = strings.Split(*flagProtocols, ",")
	}
	if s.sample > 0 {
		s.seed = testseed.New(t)
	}
	if _, err := fmt.Sscanf(*flagShard, "%d/%d", &s.shard, &s.total); err != nil || s.shard >= s.total {
		t.Fatalf("-conformance.shard=%s: want I/N with I < N", *flagShard)
	}
	table := &table{left: map[string]map[string]int{}}
	for server := range strings.SplitSeq(*flagServers, ",") {
		suite, err := openSuite(filepath.Join("..", "..", ".tools"), server)
		must(t, err)
		tests, err := suite.find(strings.Split(*flagSuites, ","), regexp.MustCompile(*flagTests))
		must(t, err)
		table.left[server] = map[string]int{}
		cases := s.cases(server, tests, table.left[server])
		if *flagFixed {
			cases = fixed(t, server, tests)
		}
		runCases(t, suite, cases, journal, dir)
		for _, c := range cases {
			table.add(journal.verdicts[c.String()])
		}
	}
	checkLent(t)
	text := table.String()
	must(t, os.WriteFile(filepath.Join(dir, "table.md"), []byte(text), 0o644))
	t.Log("\n" + text)
	for _, v := range table.different {
		t.Errorf("%s differs: see %s", v, filepath.Join(dir, "different"))
	}
}

// fixedCases are run in every end-to-end test: those that once differed, and others of the same kinds.
var fixedCases = []string{
	"mariadb-10.11/main/keywords/plain/bare", "mariadb-10.11/main/lotofstack/plain/bare", "mariadb-10.11/main/ctype_ucs2_uca/plain/tls", "mariadb-10.11/main/ctype_utf16_uca/plain/full",
	"mariadb-10.11/main/ctype_utf32_uca/plain/bare", "mariadb-10.11/main/ctype_utf8_uca/plain/tls", "mariadb-10.11/main/ctype_utf8mb4_uca/plain/bare", "mariadb-10.11/engines/funcs/ld_bit/ps/full",
	"mariadb-10.11/main/failed_auth_3909/plain/tls", "mariadb-10.11/main/multi_statement/plain/full", "mariadb-10.11/main/select_found/plain/full",
	"mariadb-11.8/main/keywords/plain/bare", "mariadb-11.8/main/lotofstack/plain/full", "mariadb-11.8/main/multi_statement/plain/tls", "mariadb-11.8/engines/funcs/ld_bit/ps/full",
	"mysql/main/multi_statement/plain/full", "mysql/main/select_found/plain/tls", "mysql/main/keywords/plain/bare", "mysql/engines/funcs/ld_bit/plain/bare", "mysql/engines/funcs/ld_bit/ps/full",
}

// fixed returns the cases of fixedCases of a server.
func fixed(t *testing.T, server string, tests []*suiteTest) (list []*testCase) {
	for _, name := range fixedCases {
		at, profile := filepath.Split(name)
		at, protocol := filepath.Split(filepath.Clean(at))
		of, at, _ := strings.Cut(filepath.Clean(at), "/")
		if of != server {
			continue
		}
		i := slices.IndexFunc(tests, func(x *suiteTest) bool { return x.suite+"/"+x.name == at })
		if i < 0 {
			t.Errorf("%s has no test %s", server, at)
			continue
		}
		list = append(list, &testCase{server, tests[i], protocol, profile})
	}
	return list
}

// runCases runs those cases that the journal has no final verdict of, by several workers.
func runCases(t *testing.T, suite *suiteDir, cases []*testCase, journal *journal, dir string) {
	todo := make(chan *testCase, len(cases))
	for _, c := range cases {
		if v := journal.verdicts[c.String()]; v == nil || v.Verdict == different {
			todo <- c
		}
	}
	close(todo)
	var workers errgroup.Group
	for range min(*flagWorkers, len(todo)) {
		workers.Go(func() error {
			work, err := os.MkdirTemp("", "conf-")
			if err != nil {
				return err
			}
			err = suite.work(t.Context(), work, todo, journal, dir, func(v *verdict) {
				t.Logf("%d left: %s: %s %s %s %.1f s", len(todo), v.Case, v.Verdict, v.Reason, strings.Join(v.Accepted, ", "), v.Seconds)
			})
			return errors.Join(err, os.RemoveAll(work))
		})
	}
	must(t, workers.Wait())
}

// work runs cases on one rig.
func (s *suiteDir) work(ctx context.Context, dir string, todo <-chan *testCase, journal *journal, keep string, report func(*verdict)) error {
	r, err := newRig(s, dir)
	if err != nil {
		return err
	}
	defer func() {
		_ = r.close()
		r.socket.Close()
	}()
	for c := range todo {
		v, err := r.judge(ctx, c, keep)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c, err), r.close())
		}
		if err := journal.add(v); err != nil {
			return err
		}
		report(v)
	}
	return errors.Join(r.close(), addCorpus(filepath.Join(keep, s.name+"-statements.jsonl"), r.texts))
}

// A journal is the file of all verdicts.
type journal struct {
	mu       sync.Mutex
	file     *os.File
	verdicts map[string]*verdict // the last one of each case; under mu while workers run
}

func openJournal(path string) (*journal, error) {
	j := &journal{verdicts: map[string]*verdict{}}
	old, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		defer old.Close()
		for lines := bufio.NewScanner(old); lines.Scan(); {
			v := &verdict{}
			if json.Unmarshal(lines.Bytes(), v) == nil { // a kill leaves half a line
				j.verdicts[v.Case] = v
			}
		}
	}
	j.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return j, err
}

func (j *journal) add(v *verdict) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdicts[v.Case] = v
	_, err = j.file.Write(append(line, '\n'))
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A table sums verdicts up.
type table struct {
	rows      map[[3]string]*[6]int // server, suite, protocol: run, equal, of these ended early, accepted, different, excluded
	accepted  map[[2]string]int     // server, reason
	excluded  map[[2]string]int
	left      map[string]map[string]int
	different []string
}

func (t *table) add(v *verdict) {
	if t.rows == nil {
		t.rows, t.accepted, t.excluded = map[[3]string]*[6]int{}, map[[2]string]int{}, map[[2]string]int{}
	}
	if v == nil {
		return // the run was interrupted
	}
	for _, suite := range []string{strings.SplitN(v.Suite, "/", 2)[0], "all"} {
		row := t.rows[[3]string{v.Server, suite, v.Protocol}]
		if row == nil {
			row = new([6]int)
			t.rows[[3]string{v.Server, suite, v.Protocol}] = row
		}
		switch {
		case v.Verdict == excluded:
			row[5]++
			continue
		case v.Verdict == different:
			row[4]++
		case len(v.Accepted) > 0:
			row[3]++
		default:
			row[1]++
		}
		row[0]++
		if v.Exit != 0 {
			row[2]++
		}
	}
	switch {
	case v.Verdict == excluded:
		t.excluded[[2]string{v.Server, v.Reason}]++
	case v.Verdict == different:
		t.different = append(t.different, v.Case)
	}
	for _, reason := range v.Accepted {
		t.accepted[[2]string{v.Server, reason}]++
	}
}

func (t *table) String() string {
	var b strings.Builder
	b.WriteString("| server | suite | protocol | run | equal | accepted | different | ended early on both | excluded |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, key := range sorted(t.rows, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		r := t.rows[key]
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %d |\n", key[0], key[1], key[2], r[0], r[1], r[3], r[4], r[2], r[5])
	}
	lines := func(title string, counts map[[2]string]int) {
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, key := range sorted(counts, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
			fmt.Fprintf(&b, "- %s: %d: %s\n", key[0], counts[key], key[1])
		}
	}
	lines("accepted", t.accepted)
	lines("excluded at run time", t.excluded)
	left := map[[2]string]int{}
	for server, reasons := range t.left {
		for reason, n := range reasons {
			left[[2]string{server, reason}] = n
		}
	}
	lines("tests left out by rule", left)
	return b.String()
}

func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
