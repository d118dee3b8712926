//go:build e2e

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxFile = 64 << 20  // bytes of a file that a test program writes
	maxDisk = 768 << 20 // bytes below the rig's directory; a fresh server has about 150 MiB

	// exitSkipped is the exit code of a test program whose test does not apply to the server.
	exitSkipped = 62
)

// A leg is the result of one run of a case.
type leg struct {
	code     int
	ended    string // the code, or the signal that ended the program
	recorded []byte // the recorded result, or how far it came
	output   []byte
	limit    string // "time" or "disk" if the leg was ended
	took     time.Duration
	port     int

	cases map[string]string // of a suite of clients: results by name
}

// equal reports whether two legs had the same result.
func (l *leg) equal(m *leg) bool {
	return l.code == m.code && l.limit == m.limit && bytes.Equal(l.recorded, m.recorded) && bytes.Equal(l.output, m.output)
}

// text returns the recorded result and the output.
func (l *leg) text() string { return string(l.recorded) + "\n" + string(l.output) }

// reason returns why the test does not apply to the server, as the test says.
func (l *leg) reason() string {
	for line := range strings.Lines(string(l.output)) {
		if _, reason, ok := strings.Cut(line, "reason: "); ok {
			return strings.TrimSpace(reason)
		}
	}
	return "does not say why"
}

// run runs a case through an address of its server, or of a gateway.
func (r *rig) run(ctx context.Context, c *testCase, port int, limit time.Duration) (*leg, error) {
	record, log := filepath.Join(r.vardir, "run", "recorded.result"), filepath.Join(r.vardir, "log", c.test.name+".log")
	for _, path := range []string{record, log} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := os.WriteFile(r.clientFile(), []byte(r.clientConfig(c, port)), 0o644); err != nil {
		return nil, err
	}
	args := append(r.programArgs(c, port), "--record", "--result-file="+record, "--test-file="+c.test.path)
	if !r.suite.mysql {
		args = append(args, "--suite-dir="+c.test.dir+"/")
	}
	// The limit of the size of files is that of the shell's builtin, in blocks of 512 bytes.
	cmd := exec.Command("/bin/sh", append([]string{"-c", "ulimit -c 0; ulimit -f " + strconv.Itoa(maxFile/512) + `; exec "$0" "$@"`,
		r.suite.program("mariadb-test", "mysqltest")}, args...)...)
	cmd.Dir, cmd.Env = r.suite.tests, r.environment(c, port)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second // of programs that the test left behind
	r.target.Store(int64(port))
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the test program: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	l := &leg{limit: r.watch(ctx, cmd.Process.Pid, done, limit), took: time.Since(started)}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the test started
	l.code, l.ended, l.output = cmd.ProcessState.ExitCode(), cmd.ProcessState.String(), output.Bytes()
	var err error
	if l.recorded, err = os.ReadFile(record); errors.Is(err, fs.ErrNotExist) {
		if l.recorded, err = os.ReadFile(log); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return l, errors.Join(err, ctx.Err())
}

// watch waits for a test program, and ends it when it takes too long or writes too much.
func (r *rig) watch(ctx context.Context, pid int, done <-chan error, limit time.Duration) string {
	overdue := time.NewTimer(limit)
	defer overdue.Stop()
	disk := time.NewTicker(2 * time.Second)
	defer disk.Stop()
	reason := ""
	for {
		select {
		case <-done: // the exit code says how it ended
			return reason
		case <-ctx.Done():
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			reason = "canceled"
			ctx = context.Background()
		case <-overdue.C:
			// The test program reports its current line on the first signal.
			signal := syscall.SIGABRT
			if reason != "" {
				signal = syscall.SIGKILL
			}
			_ = syscall.Kill(-pid, signal)
			reason = "time"
			overdue.Reset(3 * time.Second)
		case <-disk.C:
			if bytesBelow(r.vardir) > maxDisk {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
				reason = "disk"
			}
		}
	}
}

// bytesBelow returns the disk space of a directory's files.
func bytesBelow(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				n += s.Blocks * 512
			}
		}
		return nil
	})
	return n
}

func (r *rig) clientFile() string { return filepath.Join(r.vardir, "my.cnf") }

// clientConfig returns the configuration of the programs that tests start, which is that of the suite's runner.
func (r *rig) clientConfig(c *testCase, port int) string {
	tls := map[bool]string{false: "loose-skip-ssl", true: "ssl\nloose-disable-ssl-verify-server-cert"}
	if r.suite.mysql {
		tls = map[bool]string{false: "loose-ssl-mode=DISABLED", true: "loose-ssl-mode=REQUIRED"}
	}
	return fmt.Sprintf(`[client]
user=root
password=
host=localhost
protocol=tcp
port=%d
socket=%s
loose-character-sets-dir=%s
%s
[mysqlbinlog]
disable-force-if-open
`, port, r.socket.Addr(), filepath.Join(r.suite.share, "charsets"), tls[c.profile == "tls"])
}

// programArgs returns the arguments of each start of the test program.
func (r *rig) programArgs(c *testCase, port int) []string {
	args := []string{
		"--defaults-file=" + r.clientFile(), "--silent", "--tmpdir=" + filepath.Join(r.vardir, "tmp"),
		"--logdir=" + filepath.Join(r.vardir, "log"), "--database=test", "--user=root", "--password=",
		"--host=127.0.0.1", "--protocol=tcp", "--max-connect-retries=20", "--socket=" + r.socket.Addr().String(), "--port=" + strconv.Itoa(port), "--tail-lines=10000",
		"--timer-file=" + filepath.Join(r.vardir, "log", "timer"),
	}
	if c.protocol != "plain" {
		args = append(args, "--"+c.protocol+"-protocol")
	}
	return args
}

// environment returns the variables that the suite's runner sets.
func (r *rig) environment(c *testCase, port int) []string {
	s, p := r.suite, strconv.Itoa(port)
	client := func(names ...string) string {
		if path := s.program(names...); path != "" {
			return path + " --defaults-file=" + r.clientFile()
		}
		return ""
	}
	tool := func(names ...string) string { return s.program(names...) }
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": r.vardir, "TZ": timeZone, "LC_ALL": "C", "LC_CTYPE": "C", "LC_COLLATE": "C",
		"UMASK": "0660", "UMASK_DIR": "0770", "USE_RUNNING_SERVER": "0", "OPENSSL_ENABLE_SHA1_SIGNATURES": "1",
		"MYSQL_TEST_DIR": s.tests, "MYSQLTEST_VARDIR": r.vardir, "MYSQLTEST_REAL_VARDIR": r.vardir, "MYSQL_TMP_DIR": filepath.Join(r.vardir, "tmp"),
		"MYSQL_BINDIR": s.root, "MYSQL_BASEDIR": s.root, "MYSQL_SHAREDIR": s.share, "MYSQL_LIBDIR": s.root + "/usr/lib",
		"MYSQL_CHARSETSDIR": s.share + "/charsets", "CHARSETSDIR": s.share + "/charsets",
		"SECURE_LOAD_PATH": s.tests + "/std_data", "MTR_SUITE_DIR": c.test.dir, "MTR_TEST_NAME": c.test.name, "MTR_PERL": "/usr/bin/perl",
		"MASTER_MYPORT": p, "DEFAULT_MASTER_PORT": p, "SERVER_MYPORT_1": p, "MASTER_MYSOCK": r.socket.Addr().String(), "MYSQL_TCP_PORT": p,
		"MTR_MAX_PARALLEL": "1", "MTR_BUILD_THREAD": "1", "MYSQL_TEST_ROOT": "1", "DEFAULT_ENGINE": "InnoDB", "BIG_TEST": "",
		"MYSQL": client("mariadb", "mysql"), "MYSQL_SLAVE": client("mariadb", "mysql"), "EXE_MYSQL": tool("mariadb", "mysql"),
		"MYSQL_DUMP": client("mariadb-dump", "mysqldump"), "MYSQL_CHECK": client("mariadb-check", "mysqlcheck"),
		"MYSQL_IMPORT": client("mariadb-import", "mysqlimport"), "MYSQL_SHOW": client("mariadb-show", "mysqlshow"),
		"MYSQL_SLAP": client("mariadb-slap", "mysqlslap"), "MYSQLADMIN": client("mariadb-admin", "mysqladmin"),
		"MYSQL_BINLOG":  client("mariadb-binlog", "mysqlbinlog") + " --local-load=" + filepath.Join(r.vardir, "tmp"),
		"MYSQL_UPGRADE": client("mariadb-upgrade"), "MYSQL_CONFIG_EDITOR": tool("mysql_config_editor"),
		"MYSQL_TEST": strings.Join(append([]string{tool("mariadb-test", "mysqltest")}, r.programArgs(c, port)...), " "),
		"MY_PERROR":  tool("perror"), "PERROR": tool("perror"), "REPLACE": tool("replace"), "RESOLVEIP": tool("resolveip"), "INNOCHECKSUM": tool("innochecksum"),
		"MYISAMCHK": tool("myisamchk"), "MYISAMPACK": tool("myisampack"), "MARIA_CHK": tool("aria_chk"), "MARIA_PACK": tool("aria_pack"),
		"MYSQL_MY_PRINT_DEFAULTS": tool("my_print_defaults"), "IBD2SDI": tool("ibd2sdi"),
	}
	for name, so := range s.plugins {
		env[name] = so
	}
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}
