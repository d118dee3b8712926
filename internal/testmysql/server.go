package testmysql

import (
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// The accounts of every server, all with the password Password and open to any host, and the empty schema.
const (
	RootUser      = "root" // all privileges
	AppUser       = "app"  // all privileges on all schemas, none on the server
	EdUser        = "ed"   // like AppUser, by client_ed25519; only WithEd25519
	Password      = "tare-test"
	DefaultSchema = "test"
)

const (
	portAttempts = 20 // starts in case the port is taken

	// Ports are below the range that systems use for outgoing connections and for listeners without a port,
	// so that none of those takes the port of a server between Stop and Restart.
	firstPort, lastPort = 10_000, 32_000
)

// TB is the part of testing.TB that Start uses.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// A Server is a running MariaDB, or MySQL. Its methods that stop or start the process must not be
// called concurrently.
type Server struct {
	Addr   string // "127.0.0.1:port"; stays the same over Restart
	Socket string // path of the unix socket

	// CA is the authority that signed the server's certificate and CAFile its PEM file; nil and empty without
	// WithTLS.
	CA     *x509.CertPool
	CAFile string

	set     settings
	product *product
	program string
	owner   owner
	dir     *workDir
	process *process
	port    net.PacketConn // reserves the port while the process does not run: see reservePort
}

// serversEnv, set to "off", skips the tests that require a server.
const serversEnv = "TARE_TEST_SERVERS"

// SkipIfOff skips a test that requires a server if the environment disables servers.
func SkipIfOff(t TB) {
	t.Helper()
	if s, ok := t.(interface{ Skipf(string, ...any) }); ok && os.Getenv(serversEnv) == "off" {
		s.Skipf("needs a server, and %s is off", serversEnv)
	}
}

// Start starts a server for a test and stops it when the test ends. It fails the test if no server program is
// found.
func Start(t TB, opts ...Option) *Server {
	t.Helper()
	SkipIfOff(t)
	s, err := New(opts...)
	if err != nil {
		t.Fatalf("start a server: %v", err)
		return nil
	}
	closeAfter(t, s)
	return s
}

// StartOrSkip is Start for a server that may not be installed: it skips the test if MySQL is missing.
func StartOrSkip(t TB, opts ...Option) *Server {
	t.Helper()
	SkipIfOff(t)
	s, err := New(opts...)
	if skipper, ok := t.(interface{ Skipf(string, ...any) }); ok && errors.Is(err, ErrNoMySQL) {
		skipper.Skipf("%v", err)
	}
	if err != nil {
		t.Fatalf("start a server: %v", err)
		return nil
	}
	closeAfter(t, s)
	return s
}

func closeAfter(t TB, s *Server) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
}

// New starts a server for a program other than a test; the caller closes it.
func New(opts ...Option) (*Server, error) {
	s := &Server{}
	for _, o := range opts {
		o(&s.set)
	}
	s.product = mariaDB(s.set.dir)
	if s.set.mysql {
		s.product = mySQL(s.set.dir)
	}
	var err error
	if s.program, err = s.product.find(); err != nil {
		return nil, err
	}
	if s.owner, err = s.product.owner(); err != nil {
		return nil, err
	}
	template, err := templateDir(s.product, s.program, s.owner)
	if err != nil {
		return nil, err
	}
	if s.dir, err = makeWorkDir(s.owner, s.set.parent); err != nil {
		return nil, err
	}
	s.Socket = filepath.Join(s.dir.path, "sock")
	err = copyTree(filepath.Join(s.dir.path, "data"), template, s.owner)
	if err == nil && s.set.tls {
		err = s.makeCertificates()
	}
	if err == nil {
		err = s.onFreePort(s.launch)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// onFreePort calls launch with a free port in the server's address: again, with another, if it returns errPortTaken.
func (s *Server) onFreePort(launch func() error) error {
	for range portAttempts {
		l, err := net.Listen("tcp", "127.0.0.1:0") // the system picks one at random
		if err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		s.Addr = l.Addr().String()
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+s.Port()%(lastPort-firstPort)))
		if err := l.Close(); err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		if !s.reservePort() {
			continue
		}
		if l, err = net.Listen("tcp", s.Addr); err != nil || l.Close() != nil {
			continue // taken
		}
		if err := launch(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return errPortTaken
}

// reservePort reserves the port of the address until Close, so that no other program that uses this package gets it
// between Stop and Restart. The reservation is the UDP port of the same number, which database servers do not use. It
// returns false if another program has it.
func (s *Server) reservePort() bool {
	if s.port != nil {
		_ = s.port.Close() // of another address
	}
	var err error
	s.port, err = net.ListenPacket("udp", s.Addr)
	return err == nil
}

// launch starts the process on the server's address and runs the setup statements.
func (s *Server) launch() error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	// The line is translated by the server's lc_messages; its socket and port are not.
	isReady := func(line string) bool {
		return strings.Contains(line, "'"+s.Socket+"'") && strings.Contains(line, ": "+port)
	}
	p, err := startProcess(s.program, s.arguments(port), s.dir.path, s.owner, isReady)
	if err != nil {
		return err
	}
	s.process = p
	return s.Exec(s.set.setup...)
}

// arguments returns the server's command line: small, and without fsync, since the data need not survive the
// machine. Every commit is still written by the process (flush_log_at_trx_commit=2), so that it survives
// Kill.
func (s *Server) arguments(port string) []string {
	in := func(name string) string { return filepath.Join(s.dir.path, name) }
	args := []string{
		"--no-defaults",
		"--datadir=" + in("data"), "--tmpdir=" + s.dir.path, "--pid-file=" + in("pid"),
		"--socket=" + s.Socket, "--bind-address=127.0.0.1", "--port=" + port,
		"--skip-log-bin", "--local-infile=1", "--secure-file-priv=",
		"--character-set-server=utf8mb4", "--max-allowed-packet=64M", "--max-connections=600",
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=OFF",
		"--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF", "--innodb-fast-shutdown=2",
	}
	args = append(args, s.product.common...)
	if s.set.hostCache {
		args = append(args, "--performance-schema=ON", "--max-connect-errors=100")
	} else {
		args = append(args, "--skip-name-resolve")
	}
	if s.set.binlog {
		args = append(args, "--log-bin=binlog", "--server-id=1", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--sync-binlog=0")
		args = append(args, s.product.binlog...)
	}
	if s.set.tls {
		args = append(args, "--ssl-ca="+in("ca.pem"), "--ssl-cert="+in("cert.pem"), "--ssl-key="+in("key.pem"))
	} else if !s.set.mysql {
		args = append(args, "--skip-ssl") // since 11.4 MariaDB creates a certificate
	}
	for _, p := range s.set.plugins {
		args = append(args, "--plugin-load-add="+p)
	}
	return append(args, s.set.args...)
}

// Config returns go-sql-driver's configuration for an account of the server, without a
// schema. It has no TLS configuration: see CA.
func (s *Server) Config(user string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr = user, Password, "tcp", s.Addr
	return c
}

// DSN returns go-sql-driver's data source name for an account of the server, with
// DefaultSchema.
func (s *Server) DSN(user string) string {
	c := s.Config(user)
	c.DBName = DefaultSchema
	return c.FormatDSN()
}

// Port returns the port of Addr.
func (s *Server) Port() int {
	port, err := strconv.Atoi(s.Addr[strings.LastIndexByte(s.Addr, ':')+1:])
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return port
}

// Pid returns the id of the process.
func (s *Server) Pid() int { return s.process.pid }

// Log returns the last lines of the server's log.
func (s *Server) Log() string { return s.process.Log() }

// Exec runs statements as root, one after the other, on one connection through the unix
// socket.
func (s *Server) Exec(statements ...string) error {
	if len(statements) == 0 {
		return nil
	}
	c := s.Config(RootUser)
	c.Net, c.Addr, c.DBName = "unix", s.Socket, DefaultSchema
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return fmt.Errorf("connect to the server as root: %w", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range statements {
		if _, err := db.Exec(q); err != nil {
			return fmt.Errorf("run %q as root: %w", q, err)
		}
	}
	return nil
}

// Kill kills the process like kill -9; Restart brings the server back with all committed data.
func (s *Server) Kill() error { return s.process.stop(syscall.SIGKILL) }

// Stop shuts the server down gracefully.
func (s *Server) Stop() error { return s.process.stop(syscall.SIGTERM) }

// Restart stops the server if it runs, and starts it on the same address, socket and data.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.launch(); err != nil {
		return fmt.Errorf("restart on %s: %w", s.Addr, err)
	}
	return nil
}

// Close ends the process and removes its directory.
func (s *Server) Close() error {
	var err error
	if s.process != nil {
		err = s.Kill() // the data is not read again
	}
	if s.port != nil {
		err = errors.Join(err, s.port.Close())
	}
	return errors.Join(err, s.dir.remove())
}
