package programs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/testmysql"
)

const (
	startLimit = 10 * time.Second       // until a server accepts connections
	dialLimit  = 500 * time.Millisecond // of one attempt

	// StopGrace is the time for an orderly stop of a server.
	StopGrace = 10 * time.Second
)

// Look returns the path of a command, including directories that are not in an ordinary user's PATH.
func Look(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin/", "/usr/sbin/", "/sbin/"} {
		if info, err := os.Stat(dir + name); err == nil && info.Mode()&0o111 != 0 {
			return dir + name, nil
		}
	}
	return "", fmt.Errorf("%s is missing: install the package %s", name, name)
}

// Tare returns given or, if it is empty, the path of tare, built into dir from the tree around bench/.
func Tare(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return given, nil
	}
	binary := filepath.Join(dir, "tare")
	return binary, Build(ctx, binary, "..", "./cmd/tare")
}

// Build builds a package of the module in dir with the flags of a release.
func Build(ctx context.Context, binary, dir, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s (run this in bench/): %w\n%s", pkg, err, out)
	}
	return nil
}

// FreeAddress returns an address without a listener.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Serve starts a program and returns when addr accepts connections.
func Serve(ctx context.Context, name, addr, program string, args ...string) (*child.Child, error) {
	c, err := child.Start(name, exec.Command(program, args...), nil)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialLimit}
	err = c.Await(ctx, startLimit, func() (bool, error) {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return true, conn.Close()
	})
	if err != nil {
		return nil, errors.Join(err, c.Stop(StopGrace))
	}
	return c, nil
}

// Sysbench returns sysbench's arguments for a workload on one table of the test account.
func Sysbench(workload, addr string, rows int) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return []string{
		workload, "--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port,
		"--mysql-user=" + testmysql.AppUser, "--mysql-password=" + testmysql.Password, "--mysql-db=" + testmysql.DefaultSchema,
		"--tables=1", "--table-size=" + strconv.Itoa(rows),
	}
}

// Median returns the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
