//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// TestGlobalLock has a client that bypasses the gateway execute FLUSH TABLES WITH READ LOCK, and one of the gateway write: the page
// Now and the overview name the lock, and its holder as soon as the server reports it.
func TestGlobalLock(t *testing.T) {
	servers := map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}}
	for _, dir := range filepath.SplitList(os.Getenv(mariaDBDirs)) {
		servers["MariaDB in "+filepath.Base(dir)] = []testmysql.Option{testmysql.WithPrograms(dir)}
	}
	for name, opts := range servers {
		t.Run(name, func(t *testing.T) {
			s, err := testmysql.New(opts...)
			if errors.Is(err, testmysql.ErrNoMySQL) {
				t.Skip(err)
			}
			must(t, err)
			t.Cleanup(func() { must(t, s.Close()) })
			must(t, s.Exec("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT)"))
			p := startTare(t, s.Addr, "--control", "mysql://"+testmysql.RootUser+":"+testmysql.Password+"@"+s.Addr)
			direct, err := sql.Open("mysql", testmysql.RootUser+":"+testmysql.Password+"@tcp("+s.Addr+")/")
			must(t, err)
			defer direct.Close()
			conn, err := direct.Conn(t.Context())
			must(t, err)
			defer conn.Close()
			var holder uint32
			must(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&holder))
			db := open(t, p.addr, "shop")
			shows := func(path, want string) {
				t.Helper()
				eventually(t, want+" on "+path, func() bool {
					body, ok := read(t, p.http+path)
					return ok && strings.Contains(body, want)
				})
			}
			locked := func(want map[string]string) {
				t.Helper()
				_, err := conn.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
				must(t, err)
				written := make(chan error, 1)
				go func() {
					_, err := db.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO orders VALUES (NULL)")
					written <- err
				}()
				for text, path := range want {
					shows(path, text)
				}
				_, err = conn.ExecContext(t.Context(), "UNLOCK TABLES")
				must(t, err)
				must(t, testwait.Receive(t, "the end of the INSERT", written))
			}
			if name != "MySQL" {
				locked(map[string]string{
					"waits for a global lock of an unknown connection": "/sessions",
					"INSTALL SONAME": "/sessions",
					"An unknown connection holds a global lock; 1 session waits": "/",
				})
				must(t, s.Exec("INSTALL SONAME 'metadata_lock_info'"))
			}
			locked(map[string]string{
				fmt.Sprintf("waits for a global lock of connection %d", holder):    "/sessions",
				fmt.Sprintf("Connection %d (%s from ", holder, testmysql.RootUser): "/",
			})
		})
	}
}
