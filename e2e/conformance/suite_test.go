//go:build e2e

package conformance

import (
	"cmp"
	"errors"
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

	plugins map[string]string          // file names of the server's plugins, by the variables of the suite's runner
	facts   map[string]facts           // of files, by path
	lists   map[string]map[string]bool // names of disabled tests, by the path of their list
	exists  map[string]bool            // all files of the suites, by path
}

// openSuite returns the suite in .tools/NAME-suite.
func openSuite(tools, name string) (*suiteDir, error) {
	root, err := filepath.Abs(filepath.Join(tools, name+"-suite"))
	if err != nil {
		return nil, err
	}
	s := &suiteDir{name: name, root: root, mysql: name == "mysql", plugins: map[string]string{}, facts: map[string]facts{}, exists: map[string]bool{}, lists: map[string]map[string]bool{}}
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
	plugins, err := filepath.Glob(filepath.Join(root, "usr/lib/mysql/plugin/*.so"))
	for _, so := range plugins {
		name := filepath.Base(so)
		variable := strings.ToUpper(strings.TrimSuffix(name, ".so"))
		s.plugins[variable+"_SO"], s.plugins[strings.TrimPrefix(variable, "HA_")+"_SO"] = name, name
	}
	return s, errors.Join(err, filepath.WalkDir(s.tests, func(path string, _ fs.DirEntry, err error) error {
		s.exists[path] = true
		return err
	}))
}

// facts are what a file and those that it sources require.
type facts struct {
	left string   // the reason why its tests are left out, or ""
	opts []string // options of the server
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
			if !s.exists[dir] {
				dir = filepath.Join(s.tests, "t")
			}
		}
		if !s.exists[dir] {
			continue // not every server has every suite
		}
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".test" {
				return err
			}
			t, err := s.test(suite, dir, path)
			if err == nil && wanted.MatchString(t.suite+"."+t.name) {
				s.require(t)
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

// test returns one test, without what it requires.
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
	return t, nil
}

// require sets a test's options, and the rule that leaves it out.
func (s *suiteDir) require(t *suiteTest) {
	base, files := strings.TrimSuffix(t.path, ".test"), filepath.Dir(t.path)
	required := s.scan(t.path, t.dir)
	t.opts = slices.Clone(required.opts)
	for _, file := range []string{filepath.Join(t.dir, "suite.opt"), filepath.Join(files, "suite.opt"), base + ".opt", base + "-master.opt"} {
		t.opts = append(t.opts, s.options(file)...)
	}
	if t.left = s.exclude(t, base, files); t.left == "" {
		t.left = required.left
	}
}

// options returns the options of the server in a file, with the names of plugins.
func (s *suiteDir) options(file string) []string {
	if !s.exists[file] {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	expanded := pluginVariable.ReplaceAllStringFunc(string(text), func(v string) string {
		if so := s.plugins[v[1:]]; so != "" {
			return so
		}
		return v
	})
	return slices.DeleteFunc(strings.Fields(expanded), func(o string) bool { return o == "--force-restart" })
}

var pluginVariable = regexp.MustCompile(`\$\w+_SO\b`)

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

// exclude returns the reason why a test's files leave it out, or "".
func (s *suiteDir) exclude(t *suiteTest, base, files string) string {
	for _, list := range []string{filepath.Join(files, "disabled.def"), filepath.Join(s.tests, "collections", "disabled.def")} {
		if s.disabled(list)[t.name] || s.disabled(list)[t.suite+"."+t.name] {
			return "disabled by the suite"
		}
	}
	for _, end := range []string{".cnf", "-slave.opt", "-master.sh", "-slave.sh", ".sh"} {
		if s.exists[base+end] {
			return "has its own configuration of several servers"
		}
	}
	if s.exists[filepath.Join(filepath.Dir(base), "my.cnf")] {
		return "has its own configuration of several servers"
	}
	for _, o := range t.opts {
		if strings.ContainsAny(o, "$#'\"") || !strings.HasPrefix(o, "--") || notServers.MatchString(o) {
			return "has options other than the server's, or of its files and ports"
		}
	}
	return ""
}

// disabled returns the names of tests in a suite's list of those that do not work.
func (s *suiteDir) disabled(list string) map[string]bool {
	if names, ok := s.lists[list]; ok {
		return names
	}
	names := map[string]bool{}
	if text, err := os.ReadFile(list); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, _, ok := strings.Cut(line, ":"); ok {
				names[strings.Fields(name + " @")[0]] = true
			}
		}
	}
	s.lists[list] = names
	return names
}

// notServers are options in a test's files that are the test runner's, or that would hide the server from this one.
var notServers = regexp.MustCompile(`^--(timezone|testcase-timeout|default-tz|result-file|config-file|nowarnings|skip-core|` +
	`port|socket|bind-address|datadir|tmpdir|skip-networking|skip-grant-tables|bootstrap|initialize|init-file)\b`)

var sources = regexp.MustCompile(`(?i)^\s*(?:--\s*)?source\s+([^;\s$]+)`)

// scan returns what a file requires, with the files that it sources.
func (s *suiteDir) scan(path, suite string) facts {
	if f, ok := s.facts[path]; ok {
		return f
	}
	s.facts[path] = facts{} // of a file that sources itself
	data, err := os.ReadFile(path)
	if err != nil {
		return facts{}
	}
	text, f := string(data), facts{}
	if filepath.Ext(path) == ".inc" {
		f.opts = s.options(strings.TrimSuffix(path, ".inc") + ".opt")
	}
	for _, x := range exclusions {
		if f.left == "" && slices.ContainsFunc(x.words, func(w string) bool { return strings.Contains(text, w) }) {
			f.left = x.reason
		}
	}
	for line := range strings.Lines(text) {
		m := sources.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, dir := range []string{s.tests, suite, filepath.Dir(path)} {
			file := filepath.Join(dir, m[1])
			if !s.exists[file] {
				continue
			}
			sourced := s.scan(file, suite)
			f.left = cmp.Or(f.left, sourced.left)
			for _, o := range sourced.opts {
				if !slices.Contains(f.opts, o) {
					f.opts = append(f.opts, o)
				}
			}
			break
		}
	}
	s.facts[path] = f
	return f
}
