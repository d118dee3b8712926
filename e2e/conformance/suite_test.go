//go:build e2e

package conformance

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A suiteDir is a server that was unpacked with its test suite.
type suiteDir struct {
	name  string // "mariadb-10.11"
	root  string // absolute path of the unpacked packages
	tests string // of the suites: "mysql-test"
	share string // of character sets and messages
	mysql bool   // MySQL rather than MariaDB

	reasons map[string]string // why a file's tests are left out, by path
}

// openSuite returns the suite in .tools/NAME-suite.
func openSuite(tools, name string) (*suiteDir, error) {
	root, err := filepath.Abs(filepath.Join(tools, name+"-suite"))
	if err != nil {
		return nil, err
	}
	s := &suiteDir{name: name, root: root, mysql: name == "mysql", reasons: map[string]string{}}
	for _, dir := range []string{"usr/share/mysql/mysql-test", "usr/share/mariadb/mariadb-test", "usr/lib/mysql-test"} {
		if _, err := os.Stat(filepath.Join(root, dir, "include")); err == nil {
			s.tests = filepath.Join(root, dir)
		}
	}
	for _, dir := range []string{"usr/share/mysql", "usr/share/mariadb"} {
		if _, err := os.Stat(filepath.Join(root, dir, "charsets")); err == nil {
			s.share = filepath.Join(root, dir)
		}
	}
	if s.tests == "" || s.share == "" {
		return nil, fmt.Errorf("find the test suite of %s in %s: unpack it with .ci/unpack", name, root)
	}
	return s, nil
}

// program returns the path of the first program that the suite has.
func (s *suiteDir) program(names ...string) string {
	for _, name := range names {
		path := filepath.Join(s.root, "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// A suiteTest is one test of a suite.
type suiteTest struct {
	suite string // "main", "compat/oracle"
	name  string
	path  string
	dir   string   // of the suite
	opts  []string // options of the server that the test requires
	left  string   // the rule that leaves it out, or ""
}

// find returns the tests of suites whose names match, in order.
func (s *suiteDir) find(suites []string, wanted *regexp.Regexp) ([]*suiteTest, error) {
	var tests []*suiteTest
	for _, suite := range suites {
		dir := filepath.Join(s.tests, "suite", suite)
		if suite == "main" {
			dir = filepath.Join(s.tests, "main")
			if _, err := os.Stat(dir); err != nil {
				dir = filepath.Join(s.tests, "t")
			}
		}
		if _, err := os.Stat(dir); err != nil {
			continue // not every server has every suite
		}
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".test" {
				return err
			}
			t, err := s.test(suite, dir, path)
			if err == nil && wanted.MatchString(t.suite+"."+t.name) {
				t.left = s.exclude(t)
				tests = append(tests, t)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list suite %s of %s: %w", suite, s.name, err)
		}
	}
	return tests, nil
}

// test returns one test with its options.
func (s *suiteDir) test(suite, suiteRoot, path string) (*suiteTest, error) {
	dir := filepath.Dir(path)
	if filepath.Base(dir) == "t" {
		dir = filepath.Dir(dir)
	}
	t := &suiteTest{suite: suite, name: strings.TrimSuffix(filepath.Base(path), ".test"), path: path, dir: dir}
	if suite != "main" {
		rel, err := filepath.Rel(filepath.Dir(suiteRoot), dir)
		if err != nil {
			return nil, err
		}
		t.suite = rel
	}
	base := strings.TrimSuffix(path, ".test")
	for _, file := range []string{filepath.Join(dir, "suite.opt"), filepath.Join(filepath.Dir(path), "suite.opt"), base + ".opt", base + "-master.opt"} {
		text, err := os.ReadFile(file)
		if err == nil {
			t.opts = append(t.opts, strings.Fields(string(text))...)
		}
	}
	t.opts = slices.DeleteFunc(t.opts, func(o string) bool { return o == "--force-restart" })
	return t, nil
}

// exclusions leave out tests by words in their text, or in that of the files that they source.
var exclusions = []struct {
	reason string
	words  []string
}{
	{"needs a debug build", []string{"have_debug.inc", "have_debug_sync.inc"}},
	{"stops or restarts the server", []string{
		".expect", "restart_mysqld", "shutdown_mysqld", "kill_mysqld", "start_mysqld", "kill_and_restart", "shutdown_server",
		"\nshutdown;", "\nSHUTDOWN;", "\nSHUTDOWN\n", "send shutdown", "send SHUTDOWN", "\nRESTART;", "\nrestart;",
	}},
	{"needs replication", []string{"master-slave.inc", "rpl_init.inc", "wait_for_slave", "group_replication", "have_wsrep"}},
	{"starts a server program", []string{"$MYSQLD ", "$MYSQLD_", "$MYSQL_INSTALL_DB", "$XTRABACKUP", "$MYSQL_EMBEDDED", "$MARIADB_UPGRADE"}},
	{"marked as big", []string{"big_test.inc", "long_test.inc"}},
	{"needs a Windows, Valgrind or embedded build", []string{"include/windows.inc", "include/have_valgrind.inc", "include/is_embedded.inc"}},
}

// exclude returns the reason why a test is left out, or "".
func (s *suiteDir) exclude(t *suiteTest) string {
	base, files := strings.TrimSuffix(t.path, ".test"), filepath.Dir(t.path)
	if disabled, err := os.ReadFile(filepath.Join(files, "disabled.def")); err == nil &&
		regexp.MustCompile(`(?m)^\s*(\w+\.)?`+regexp.QuoteMeta(t.name)+`\s*:`).Match(disabled) {
		return "disabled by the suite"
	}
	if list, err := os.ReadFile(filepath.Join(s.tests, "collections", "disabled.def")); err == nil &&
		bytes.Contains(list, []byte("\n"+t.suite+"."+t.name+" ")) {
		return "disabled by the suite"
	}
	for _, end := range []string{".cnf", "-slave.opt", "-master.sh", "-slave.sh", ".sh"} {
		if _, err := os.Stat(base + end); err == nil {
			return "has its own configuration of several servers"
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(base), "my.cnf")); err == nil {
		return "has its own configuration of several servers"
	}
	for _, o := range t.opts {
		if strings.ContainsAny(o, "$#'\"") || !strings.HasPrefix(o, "--") || notServers.MatchString(o) {
			return "has options other than the server's, or of its files and ports"
		}
	}
	return s.scan(t.path, t.dir)
}

// notServers are options in a test's files that are the test runner's, or that would hide the server from this one.
var notServers = regexp.MustCompile(`^--(timezone|testcase-timeout|default-tz|result-file|config-file|nowarnings|skip-core|` +
	`port|socket|bind-address|datadir|tmpdir|skip-networking|skip-grant-tables|bootstrap|initialize|init-file)\b`)

var sources = regexp.MustCompile(`(?i)^\s*(?:--\s*)?source\s+([^;\s$]+)`)

// scan returns the first of the exclusions that a test's file matches, or one that it sources.
func (s *suiteDir) scan(path, suite string) string {
	if reason, ok := s.reasons[path]; ok {
		return reason
	}
	s.reasons[path] = "" // of a file that sources itself
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text := string(data)
	for _, x := range exclusions {
		if slices.ContainsFunc(x.words, func(w string) bool { return strings.Contains(text, w) }) {
			s.reasons[path] = x.reason
			return x.reason
		}
	}
	for line := range strings.Lines(text) {
		m := sources.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, dir := range []string{s.tests, suite, filepath.Dir(path)} {
			file := filepath.Join(dir, m[1])
			if _, err := os.Stat(file); err != nil {
				continue
			}
			if reason := s.scan(file, suite); reason != "" {
				s.reasons[path] = reason
				return reason
			}
			break
		}
	}
	return ""
}
