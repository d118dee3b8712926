package testmysql

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
)

// StartTiDB runs a program of TiDB in an empty directory until the test ends, with further arguments, and returns its
// address when it is ready. Its user root has no password.
func StartTiDB(t TB, program, dir string, args ...string) (addr string) {
	t.Helper()
	SkipIfOff(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	s := &Server{}
	err := s.onFreePort(func() (err error) {
		_, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		all := append([]string{
			"-store", "unistore", "-path", in("data"), "-temp-dir", in("tmp"), "-host", "127.0.0.1", "-P", port,
			"-socket", in("sock"), "-report-status=false", "-log-slow-query", in("slow.log"),
		}, args...)
		s.process, err = startProcess(program, all, dir, owner{}, func(line string) bool {
			return strings.Contains(line, "server is running MySQL protocol") && strings.Contains(line, s.Addr)
		})
		return err
	})
	t.Cleanup(func() {
		var err error
		if s.process != nil {
			select {
			case <-s.process.exited:
				t.Errorf("TiDB ended during the test; its log:\n%s", s.process.Log())
			default:
				err = s.Kill()
			}
		}
		if s.port != nil {
			err = errors.Join(err, s.port.Close())
		}
		if err != nil {
			t.Errorf("stop TiDB: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("start TiDB: %v", err)
	}
	return s.Addr
}
