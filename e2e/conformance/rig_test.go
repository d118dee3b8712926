//go:build e2e

package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/testmysql"
)

// A rig is a worker's server with its gateways. Its directories keep their names over all legs, since tests print them.
type rig struct {
	suite   *suiteDir
	vardir  string // MYSQLTEST_VARDIR
	kept    string // directory for the gateways' logs
	config  string // rules that match nothing
	started int    // servers so far

	server      *testmysql.Server
	opts        []string // that the server was started with
	db          *sql.DB
	certificate []string            // arguments of `tare serve` for the server's own certificate
	fresh       string              // state of the server when it was started
	gateways    map[string]*gateway // by profile
	texts       map[string]bool     // statements in the query logs so far
	plain       bool                // for suites of clients: a server with usual options and accounts

	socket net.Listener // of test programs that connect by a Unix socket, to target
	target atomic.Int64 // port of the current leg
}

// A gateway is one process of tare.
type gateway struct {
	*child.Child
	port   int
	http   string // URL of the pages
	log    string // the query log, or ""
	stderr *os.File
}

// profiles are arguments of `tare serve`, which has the server's certificate too. The clients use TLS in the profile tls.
var profiles = map[string]func(*rig, string) []string{
	"bare":  func(*rig, string) []string { return nil },
	"full":  (*rig).everything,
	"tls":   (*rig).everything,
	"pool":  (*rig).pooled,
	"moved": func(r *rig, dir string) []string { return append(r.pooled(dir), "--pool-lifetime", "1ns") },
}

// isPooled reports whether the clients of a profile share connections: in moved, each command that no pin precedes has a new one.
func isPooled(profile string) bool { return profile == "pool" || profile == "moved" }

// pooled turns on all that everything does, and shared connections for the account of the tests.
func (r *rig) pooled(dir string) []string {
	return append(r.everything(dir), "--pool", "transaction", "--pool-accounts", r.accounts(), "--pool-max", "100")
}

// everything turns on rules that match nothing, the query log with values, and the history.
func (r *rig) everything(dir string) []string {
	return []string{
		"--config", r.config, "--log-file", filepath.Join(dir, "query.log"), "--log-redact", "none", "--log-original",
		"--bucket", "file://" + filepath.Join(dir, "bucket"), "--data-dir", filepath.Join(dir, "data"),
	}
}

// accounts returns the file with the account of the tests.
func (r *rig) accounts() string { return filepath.Join(r.kept, "accounts.yaml") }

const rulesOfNothing = `serve:
  rules:
    - {name: none, action: block, tables: ["none.none"], users: [none]}
    - {name: nothing, action: block, digests: ["02000000000000000000000000000000"]}
`

// newRig creates the directories of a rig.
func newRig(s *suiteDir, dir string) (*rig, error) {
	r := &rig{suite: s, vardir: filepath.Join(dir, "var"), kept: filepath.Join(dir, "tare"), config: filepath.Join(dir, "rules.yaml"), texts: map[string]bool{}}
	for _, sub := range []string{"tmp", "log", "run"} {
		path := filepath.Join(r.vardir, sub)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o777)); err != nil { // the server writes there too
			return nil, err
		}
	}
	err := errors.Join(
		os.MkdirAll(r.kept, 0o755),
		os.WriteFile(r.config, []byte(rulesOfNothing), 0o644),
		os.Symlink(filepath.Join(s.tests, "std_data"), filepath.Join(r.vardir, "std_data")),
	)
	for dir := r.vardir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		err = errors.Join(err, os.Chmod(dir, 0o755)) // the server has another user
	}
	if err == nil {
		r.socket, err = net.Listen("unix", filepath.Join(r.vardir, "socket"))
	}
	if err == nil {
		go r.forward()
	}
	return r, err
}

// forward connects the clients of the socket to the address of the current leg, until the socket is closed. The gateway
// itself has no Unix socket.
func (r *rig) forward() {
	for {
		client, err := r.socket.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.FormatInt(r.target.Load(), 10)))
		if err != nil {
			client.Close()
			continue
		}
		for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(ends[1], ends[0]) // until either end closes
				ends[0].Close()
				ends[1].Close()
			}()
		}
	}
}

// serverArgs returns the options that the suite's own runner starts servers with.
func (s *suiteDir) serverArgs(vardir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(s.tests, "include", "default_mysqld.cnf"))
	if err != nil {
		return nil, err
	}
	replace := strings.NewReplacer("@ENV.MYSQLTEST_VARDIR", vardir, "@ENV.MYSQL_TEST_DIR", s.tests)
	var args []string
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "[") && line != "[mysqld]":
			return append(args, "--skip-name-resolve=OFF"), nil
		case line == "", strings.ContainsAny(line[:1], "#![@"):
			continue
		}
		name, value, given := strings.Cut(line, "=")
		name = strings.ReplaceAll(strings.TrimSpace(name), "_", "-")
		if given {
			value = "=" + replace.Replace(strings.TrimSpace(value))
		}
		// The first is positional; the size of the logs is that of the template; files are below two directories.
		if slices.Contains([]string{"disable-getopt-prefix-matching", "loose-innodb-log-file-size", "loose-innodb-redo-log-capacity", "secure-file-priv"}, name) {
			continue
		}
		args = append(args, "--"+name+value)
	}
	return append(args, "--skip-name-resolve=OFF"), nil
}

// ready makes the rig's server a fresh one, or one in the state of a fresh one, with a test's options.
func (r *rig) ready(ctx context.Context, opts []string) error {
	if r.server != nil && slices.Equal(r.opts, opts) {
		return nil
	}
	if err := r.close(); err != nil {
		return err
	}
	options := []testmysql.Option{testmysql.WithPrograms(r.suite.root), testmysql.WithFilesIn(r.vardir), testmysql.WithTLS()}
	if r.suite.mysql {
		options = append(options, testmysql.WithMySQL())
	}
	if !r.plain {
		args, err := r.suite.serverArgs(r.vardir)
		if err != nil {
			return err
		}
		options = append(options, testmysql.WithArgs(args...), testmysql.WithSetup(r.suite.accounts()...))
	}
	var err error
	if r.server, err = testmysql.New(append(options, testmysql.WithArgs(opts...))...); err != nil {
		return fmt.Errorf("%w: %w", errServerOptions, err)
	}
	r.opts, r.gateways = opts, map[string]*gateway{}
	r.started++
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.MultiStatements, cfg.Logger = "root", "unix", r.server.Socket, true, &mysql.NopLogger{}
	if r.plain {
		cfg.Passwd = testmysql.Password
	}
	if err := os.WriteFile(r.accounts(), []byte(`root: "`+cfg.Passwd+"\"\n"), 0o600); err != nil {
		return err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	r.db = sql.OpenDB(connector)
	if !r.plain {
		if err := r.install(ctx); err != nil {
			return err
		}
	}
	if r.certificate, err = r.ownCertificate(ctx); err != nil {
		return err
	}
	r.fresh, err = r.state(ctx)
	return err
}

// ownCertificate returns arguments of `tare serve` for the server's certificate, and that of its authority, which the server sends too.
func (r *rig) ownCertificate(ctx context.Context) (args []string, err error) {
	var cert, key, authority string
	if err := r.db.QueryRowContext(ctx, "SELECT @@GLOBAL.ssl_cert, @@GLOBAL.ssl_key, @@GLOBAL.ssl_ca").Scan(&cert, &key, &authority); err != nil {
		return nil, err
	}
	var chain []byte
	for _, name := range []string{cert, authority} {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		chain = append(chain, pem...)
	}
	name := filepath.Join(r.kept, "chain.pem")
	return []string{"--tls-cert", name, "--tls-key", key}, os.WriteFile(name, chain, 0o600)
}

// errServerOptions reports that a server does not start with a test's options.
var errServerOptions = errors.New("start a server with the test's options")

// accounts returns statements that replace the accounts by that of the suites.
func (s *suiteDir) accounts() (statements []string) {
	grant := func(account string) {
		statements = append(statements, "CREATE USER "+account+" IDENTIFIED BY ''", "GRANT ALL PRIVILEGES ON *.* TO "+account+" WITH GRANT OPTION")
	}
	grant("root@localhost")
	if s.mysql { // which does not resolve the address on every machine, and whose first account alone grants proxies
		grant("root@127.0.0.1")
	} else {
		statements = append(statements, "GRANT PROXY ON ''@'' TO root@localhost WITH GRANT OPTION")
	}
	return append(statements, "DROP USER "+testmysql.AppUser+"@'%'", "DROP USER "+testmysql.RootUser+"@'%'",
		"DROP DATABASE IF EXISTS test", "CREATE DATABASE test", "CREATE DATABASE IF NOT EXISTS mtr")
}

// install creates the suite's own procedures, which tests call and which check the state.
func (r *rig) install(ctx context.Context) error {
	client := r.suite.program("mariadb", "mysql")
	for _, file := range []string{"mtr_warnings.sql", "mtr_check.sql"} {
		text, err := os.ReadFile(filepath.Join(r.suite.tests, "include", file))
		if err != nil {
			return err
		}
		// Written for the server's bootstrap: a line of DELIMITER ends at its semicolon, a comment needs no space.
		text = bootstrapComment.ReplaceAll(bytes.ReplaceAll(text, []byte("delimiter ||;"), []byte("delimiter ||\n")), nil)
		cmd := exec.CommandContext(ctx, client, "--no-defaults", "--user=root", "--socket="+r.server.Socket, "mtr")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("run %s of the suite: %w\n%s", file, err, out)
		}
	}
	return nil
}

var bootstrapComment = regexp.MustCompile(`(?m)^\s*--.*$`)

// state returns a hash of what the suite's check compares before and after a test.
func (r *rig) state(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	statement := "CALL mtr.check_testcase()"
	if r.plain {
		statement = plainState
	}
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	h := sha256.New()
	for {
		if err := hashRows(h, rows); err != nil {
			return "", err
		}
		if !rows.NextResultSet() {
			return fmt.Sprintf("%x", h.Sum(nil)), rows.Err()
		}
	}
}

// plainState reads the state that a test of a client may change.
const plainState = "SHOW GLOBAL VARIABLES; SHOW DATABASES; SELECT * FROM mysql.user; SELECT * FROM mysql.db; SHOW PLUGINS; " +
	"SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2; SELECT specific_name FROM information_schema.routines ORDER BY 1"

// changing are variables that change without a test's doing.
var changing = []string{"TIMESTAMP", "GTID_EXECUTED", "INNODB_THREAD_SLEEP_DELAY", "RAND_SEED1", "RAND_SEED2"}

func hashRows(h hash.Hash, rows *sql.Rows) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, dest := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if len(values) > 0 && slices.Contains(changing, strings.ToUpper(string(values[0]))) {
			continue
		}
		for _, v := range values {
			fmt.Fprintf(h, "%d %s\n", len(v), v)
		}
	}
	return rows.Err()
}

// settle drops the server unless it is in the state of a fresh one. It returns whether the server had exited.
func (r *rig) settle(ctx context.Context) (crashed bool, err error) {
	if r.server == nil {
		return false, nil
	}
	for _, sub := range []string{"tmp", "run"} {
		files, err := filepath.Glob(filepath.Join(r.vardir, sub, "*"))
		if err != nil {
			return false, err
		}
		for _, f := range files {
			if err := os.RemoveAll(f); err != nil {
				return false, err
			}
		}
	}
	if err := r.db.PingContext(ctx); err != nil {
		return true, r.close()
	}
	if state, err := r.state(ctx); err == nil && state == r.fresh {
		return false, nil
	}
	return false, r.close()
}

// close stops the gateways and the server.
func (r *rig) close() (err error) {
	for profile, g := range r.gateways {
		err = errors.Join(err, g.stop(profile))
		if g.log != "" {
			err = errors.Join(err, checkLog(g.log, r.texts))
		}
	}
	r.gateways = nil
	if r.db != nil {
		r.db.Close()
		r.db = nil
	}
	if r.server != nil {
		err = errors.Join(err, r.server.Close())
		r.server = nil
	}
	return err
}

// through returns the gateway of a profile, which it starts if it does not run.
func (r *rig) through(ctx context.Context, profile string) (*gateway, error) {
	if isPooled(profile) {
		pooledLegs.Add(1)
	}
	if g := r.gateways[profile]; g != nil {
		select {
		case <-g.Done:
			delete(r.gateways, profile)
			return nil, fmt.Errorf("the gateway exited: %w", g.Ended())
		default:
			return g, nil
		}
	}
	dir := filepath.Join(r.kept, profile)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	args := append([]string{
		"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", "mysql://" + r.server.Addr, "--diag-format", "json",
		"--drain-timeout", "1s", "--handshake-timeout", "2m",
	}, slices.Concat(r.certificate, profiles[profile](r, dir))...)
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return nil, err
	}
	g := &gateway{stderr: stderr}
	cmd := exec.Command(binary, args...)
	// Start assigns both streams: the log goes to the file through the shell.
	cmd = exec.Command("/bin/sh", append([]string{"-c", `exec "$0" "$@" 2>>` + stderr.Name(), cmd.Path}, cmd.Args[1:]...)...)
	if g.Child, err = child.Start("tare", cmd, nil); err != nil {
		return nil, err
	}
	err = g.Await(ctx, time.Minute, func() (bool, error) {
		text, err := os.ReadFile(stderr.Name())
		for line := range strings.Lines(string(text)) {
			var l struct{ Msg, Listen, HTTP string }
			if json.Unmarshal([]byte(line), &l) != nil || l.Listen == "" {
				continue
			}
			_, port, err := net.SplitHostPort(l.Listen)
			if err != nil {
				return false, err
			}
			g.http = l.HTTP
			g.port, err = strconv.Atoi(port)
			return err == nil, err
		}
		return false, err
	})
	if err != nil {
		text, _ := os.ReadFile(stderr.Name())
		return nil, errors.Join(err, g.stop(profile), errors.New(string(text)))
	}
	if profile != "bare" {
		g.log = filepath.Join(dir, "query.log")
	}
	r.gateways[profile] = g
	return g, nil
}

// stop ends a gateway, and returns an error if it panicked.
func (g *gateway) stop(profile string) error {
	lentErr := g.countLent(profile)
	err := g.Stop(time.Minute)
	if g.bySessionsLeft(err) {
		err = nil
	}
	text, readErr := io.ReadAll(g.stderr)
	g.stderr.Close()
	if s := string(text); strings.Contains(s, "panic:") || strings.Contains(s, "BUG:") {
		err = errors.Join(err, fmt.Errorf("tare with profile %s panicked:\n%s", profile, s))
	}
	return errors.Join(err, readErr, lentErr)
}

// bySessionsLeft reports whether the gateway ended with the code of sessions that it had to cut off.
func (g *gateway) bySessionsLeft(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 3 || err != nil && strings.Contains(err.Error(), "exit status 3")
}
