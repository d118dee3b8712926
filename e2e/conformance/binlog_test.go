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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

var (
	flagRowEvents = flag.Int("conformance.binlog", 0, "about how many row events of each server TestBinaryLogs compares; 0: off")
	flagLogCases  = flag.Int("conformance.binlog-cases", 0, "tests of the suites for TestBinaryLogs, chosen by the seed; 0: all. Generated statements add what is missing")
)

// logSuites are suites about the binary log that TestBinaryLogs runs besides those of the other tests.
const logSuites = "binlog,binlog_gtid,binlog_nogtid,"

// A logForm is how a server writes its binary log.
type logForm struct {
	name      string
	args      []string
	encrypted bool // the files are read from the server
}

// logForms returns the forms that a server has.
func (s *suiteDir) logForms() []logForm {
	form := func(name string, args ...string) logForm {
		return logForm{name: name, args: append(args, "--binlog-format=ROW", "--server-id=1", "--sync-binlog=0")}
	}
	if s.mysql {
		return []logForm{
			form("full", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL"),
			form("minimal, compressed", "--binlog-row-image=MINIMAL", "--binlog-transaction-compression=ON"),
			form("noblob, no checksums, partial JSON", "--binlog-row-image=NOBLOB", "--binlog-checksum=NONE", "--binlog-row-value-options=PARTIAL_JSON"),
			form("full, compressed, statements", "--binlog-row-image=FULL", "--binlog-transaction-compression=ON", "--binlog-rows-query-log-events=ON"),
		}
	}
	forms := []logForm{
		form("full", "--binlog-row-image=FULL"),
		form("minimal, compressed", "--binlog-row-image=MINIMAL", "--log-bin-compress", "--log-bin-compress-min-len=10", "--binlog-row-metadata=FULL"),
		form("noblob, no checksums", "--binlog-row-image=NOBLOB", "--binlog-checksum=NONE", "--binlog-row-metadata=MINIMAL"),
		form("full, compressed, encrypted", "--binlog-row-image=FULL", "--log-bin-compress", "--log-bin-compress-min-len=10", "--encrypt-binlog",
			"--plugin-load-add=file_key_management", "--file-key-management-filename="+keyFile),
	}
	forms[3].encrypted = true
	if s.name != "mariadb-10.11" {
		forms = append(forms, form("full without equal values", "--binlog-row-image=FULL_NODUP", "--binlog-row-metadata=FULL"))
	}
	return forms
}

// keyFile stands for the path of the key of encrypted logs in the arguments of a form.
const keyFile = "KEY"

// A logResult is one line of the journal of TestBinaryLogs: what the test TestServersReaders of package binlog reports.
type logResult struct {
	Server      string         `json:"server"`
	Name        string         `json:"name"` // of the suite's test, or of the round of generated statements
	Form        string         `json:"form"`
	Files       int            `json:"files"`
	Events      int            `json:"events"`
	RowEvents   int            `json:"row_events"`
	Rows        int            `json:"rows"`
	Values      int            `json:"values"`
	Unprinted   int            `json:"unprinted"`
	Kinds       map[string]int `json:"kinds"`
	Stops       map[string]int `json:"stops"`
	Differences []string       `json:"differences"`
}

// TestBinaryLogs runs tests of the suites directly on servers that write their binary log in each of their forms, and
// compares what package binlog and the server's own program read from the logs.
func TestBinaryLogs(t *testing.T) {
	if *flagRowEvents == 0 {
		t.Skip("-conformance.binlog is not given")
	}
	dir := *flagDir
	if dir == "" {
		dir = t.TempDir()
	}
	must(t, os.MkdirAll(dir, 0o755))
	oracle := filepath.Join(t.TempDir(), "binlog.test")
	out, err := exec.Command("go", "test", "-C", "../..", "-c", "-tags", "e2e", "-o", oracle, "./mysql/binlog").CombinedOutput()
	if err != nil {
		t.Fatalf("build the tests of package binlog: %v\n%s", err, out)
	}
	seed := testseed.New(t)
	journal := filepath.Join(dir, "binlog.jsonl")
	for server := range strings.SplitSeq(*flagServers, ",") {
		suite, err := openSuite(filepath.Join("..", "..", ".tools"), server)
		must(t, err)
		work, err := os.MkdirTemp("", "conf-")
		must(t, err)
		l := &logRun{t: t, suite: suite, oracle: oracle, keep: dir, journal: journal, seed: seed}
		l.done, err = readLogResults(journal, server)
		must(t, err)
		err = l.run(t.Context(), work)
		must(t, errors.Join(err, os.RemoveAll(work)))
	}
	t.Log("\n" + logTable(t, journal))
}

// A logRun compares the logs of one server.
type logRun struct {
	t       *testing.T
	suite   *suiteDir
	oracle  string // the test program of package binlog
	keep    string // for logs that differ
	journal string
	seed    uint64
	done    map[string]*logResult

	rig  *rig
	logs string // directory of the server's log files
	took string // and of those to compare
}

func (l *logRun) run(ctx context.Context, dir string) (err error) {
	if l.rig, err = newRig(l.suite, dir); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, l.rig.close())
		l.rig.socket.Close()
	}()
	l.logs, l.took = filepath.Join(l.rig.vardir, "binlog"), filepath.Join(dir, "took")
	for _, path := range []string{l.logs, l.took} {
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o777)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(l.rig.vardir, "key"), []byte("1;770A8A65DA156D24EE2A093277530142\n"), 0o644); err != nil {
		return err
	}
	forms := l.suite.logForms()
	for i, form := range forms {
		if err := l.suiteCases(ctx, form, uint64(i), uint64(len(forms))); err != nil {
			return err
		}
	}
	return l.generate(ctx, forms)
}

// suiteCases runs those tests of the suites that the form has.
func (l *logRun) suiteCases(ctx context.Context, form logForm, part, parts uint64) error {
	tests, err := l.suite.find(strings.Split(logSuites+*flagSuites, ","), regexp.MustCompile(*flagTests))
	if err != nil {
		return err
	}
	s := &selection{protocols: []string{"plain"}, profiles: []string{"bare"}, sample: (*flagLogCases + int(parts) - 1) / int(parts), seed: l.seed, shard: part, total: parts}
	for _, c := range s.cases(l.suite.name, tests, map[string]int{}) {
		name := c.test.suite + "." + c.test.name
		if l.done[name] != nil {
			continue
		}
		if err := l.start(ctx, form, c.test.opts); errors.Is(err, errServerOptions) {
			continue
		} else if err != nil {
			return err
		}
		if _, err := l.rig.run(ctx, c, l.rig.server.Port(), *flagLimit); err != nil {
			return err
		}
		if err := l.compare(ctx, form, name); err != nil {
			return err
		}
		if _, err := l.rig.settle(ctx); err != nil {
			return err
		}
	}
	return l.rig.close()
}

// start starts a server with a form's options and a test's, unless it runs, and empties its log.
func (l *logRun) start(ctx context.Context, form logForm, opts []string) error {
	all := append(slices.Clone(opts), "--log-bin="+filepath.Join(l.logs, "master-bin"))
	for _, arg := range form.args {
		all = append(all, strings.ReplaceAll(arg, keyFile, filepath.Join(l.rig.vardir, "key")))
	}
	if l.rig.server != nil && slices.Equal(l.rig.opts, all) {
		return nil
	}
	err := l.rig.close()
	err = errors.Join(err, removeFiles(l.logs)) // of the server before
	if err == nil {
		err = l.rig.ready(ctx, all)
	}
	if err == nil {
		err = l.reset(ctx)
	}
	if err != nil {
		return err
	}
	l.rig.fresh, err = l.rig.state(ctx)
	return err
}

// reset removes the server's log files.
func (l *logRun) reset(ctx context.Context) error {
	statement := "RESET MASTER"
	if l.suite.mysql {
		statement = "RESET BINARY LOGS AND GTIDS"
	}
	_, err := l.rig.db.ExecContext(ctx, statement)
	return err
}

func removeFiles(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		err = errors.Join(err, os.RemoveAll(f))
	}
	return err
}

// take links the server's closed log files into the directory of those to compare, and empties its log.
func (l *logRun) take(ctx context.Context, form logForm) error {
	if err := removeFiles(l.took); err != nil {
		return err
	}
	if _, err := l.rig.db.ExecContext(ctx, "FLUSH BINARY LOGS"); err != nil {
		return l.link(-1) // the test has stopped the server, which is not started again
	}
	if !form.encrypted {
		if err := l.link(1); err != nil {
			return err
		}
		return l.reset(ctx)
	}
	files, err := logFiles(l.logs)
	if err != nil || len(files) < 2 {
		return err
	}
	args := []string{"--no-defaults", "--user=root", "--host=127.0.0.1", fmt.Sprintf("--port=%d", l.rig.server.Port()), "--skip-ssl", "--read-from-remote-server", "--raw", "--result-file=" + l.took + "/"}
	for _, f := range files[:len(files)-1] {
		args = append(args, filepath.Base(f))
	}
	if out, err := exec.CommandContext(ctx, l.program(), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("read encrypted logs from the server: %w\n%s", err, out)
	}
	return l.reset(ctx)
}

func (l *logRun) program() string { return l.suite.program("mariadb-binlog", "mysqlbinlog") }

var logName = regexp.MustCompile(`\.\d{6}$`)

// logFiles returns the log files of a directory in order.
func logFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	return slices.DeleteFunc(files, func(f string) bool { return !logName.MatchString(f) }), err
}

// link links all log files but the last ones.
func (l *logRun) link(last int) error {
	files, err := logFiles(l.logs)
	for _, f := range files[:max(0, len(files)-max(0, last))] {
		err = errors.Join(err, os.Link(f, filepath.Join(l.took, filepath.Base(f))))
	}
	return err
}

// compare compares the log since the last call, and writes the result into the journal.
func (l *logRun) compare(ctx context.Context, form logForm, name string) error {
	if err := l.take(ctx, form); err != nil {
		return err
	}
	result := &logResult{Server: l.suite.name, Name: name, Form: form.name}
	files, err := logFiles(l.took)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		report := filepath.Join(filepath.Dir(l.took), "report")
		cmd := exec.CommandContext(ctx, l.oracle, "-test.run=^TestServersReaders$", "-binlog.dir="+l.took, "-binlog.program="+l.program(), "-binlog.report="+report)
		out, runErr := cmd.CombinedOutput()
		text, err := os.ReadFile(report)
		if err != nil {
			return fmt.Errorf("%s: compare the logs: %w\n%s", name, runErr, out)
		}
		if err := errors.Join(json.Unmarshal(text, result), os.Remove(report)); err != nil {
			return err
		}
	}
	if len(result.Differences) > 0 {
		kept := filepath.Join(l.keep, "binlog-different", l.suite.name+"-"+strings.ReplaceAll(name, "/", "-"))
		if err := errors.Join(os.RemoveAll(kept), os.MkdirAll(filepath.Dir(kept), 0o755), os.CopyFS(kept, os.DirFS(l.took))); err != nil {
			return err
		}
		l.t.Errorf("%s %s (%s) differs, see %s: %s", l.suite.name, name, form.name, kept, strings.Join(result.Differences, "\n"))
	}
	l.done[name] = result
	line, err := json.Marshal(result)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(l.journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close(), removeFiles(l.took))
}

// readLogResults returns the results of a server in the journal without differences, by name; those with differences run again.
func readLogResults(path, server string) (map[string]*logResult, error) {
	results := map[string]*logResult{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		r := &logResult{}
		if json.Unmarshal(lines.Bytes(), r) != nil || r.Server != server { // a kill leaves half a line
			continue
		}
		if delete(results, r.Name); len(r.Differences) == 0 {
			results[r.Name] = r
		}
	}
	return results, lines.Err()
}

// logTable sums the journal up.
func logTable(t *testing.T, journal string) string {
	var b strings.Builder
	b.WriteString("| server | statements | logs | events | row events | images of rows | values | not printed | differences |\n|---|---|---|---|---|---|---|---|---|\n")
	stops, kinds := map[string]int{}, map[string]int{}
	for server := range strings.SplitSeq(*flagServers, ",") {
		results, err := readLogResults(journal, server)
		must(t, err)
		sums := map[string]*logResult{"suites": {}, "generated": {}}
		for name, r := range results {
			sum := sums["suites"]
			if strings.HasPrefix(name, "generated ") {
				sum = sums["generated"]
			}
			sum.Files, sum.Events, sum.RowEvents, sum.Rows = sum.Files+r.Files, sum.Events+r.Events, sum.RowEvents+r.RowEvents, sum.Rows+r.Rows
			sum.Values, sum.Unprinted = sum.Values+r.Values, sum.Unprinted+r.Unprinted
			sum.Differences = append(sum.Differences, r.Differences...)
			for kind, n := range r.Kinds {
				kinds[server+": type "+kind] += n
			}
			for stop, n := range r.Stops {
				stops[server+": "+stop] += n
			}
		}
		for _, of := range []string{"suites", "generated"} {
			r := sums[of]
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d |\n", server, of, r.Files, r.Events, r.RowEvents, r.Rows, r.Values, r.Unprinted, len(r.Differences))
		}
	}
	for title, counts := range map[string]map[string]int{"where a follower stops": stops, "events": kinds} {
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "- %s: %d\n", key, counts[key])
		}
	}
	return b.String()
}
