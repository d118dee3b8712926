//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/weigh"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Tests that use a gateway with -pool=shared or -pool=moved show that they pass with shared connections, too.
var pooled = flag.String("pool", "", "the clients of the tests' accounts share connections to the backend: shared, or moved, where each command that no pin precedes has a new one")

// pooledLent is how often the gateways have lent a connection to a client.
var pooledLent atomic.Int64

// A pooledDifference is a difference of a client in TestMatrix that shared connections explain.
type pooledDifference struct {
	client, server *regexp.Regexp // server: with plain or tls
	lines          *regexp.Regexp // in one transcript or both
	says           string         // words of docs/tasks/pool.md that explain it

	ran, occurs bool
}

var pooledDifferences = []*pooledDifference{
	{
		client: regexp.MustCompile(`^Connector/Python(, compressed)?$`), server: regexp.MustCompile(`^MySQL .* plain$`),
		lines: regexp.MustCompile(`(?m)^wrong password: (ProgrammingError 1045 .*|InterfaceError 2061 .* Authentication requires secure connection\.)$`),
		says:  "Tare authenticates their clients",
	},
}

// acceptPooled removes a client's accepted differences from its transcripts.
func acceptPooled(client, server string, direct, through *string) {
	for _, d := range pooledDifferences {
		if *pooled == "" || !d.client.MatchString(client) || !d.server.MatchString(server) {
			continue
		}
		d.ran = true
		if *direct == *through {
			continue
		}
		a, b := d.lines.ReplaceAllString(*direct, "…"), d.lines.ReplaceAllString(*through, "…")
		d.occurs = d.occurs || a != *direct || b != *through
		*direct, *through = a, b
	}
}

// TestPooledDifferences checks that the documentation explains each difference.
func TestPooledDifferences(t *testing.T) {
	text, err := os.ReadFile("../docs/tasks/pool.md")
	must(t, err)
	for _, d := range pooledDifferences {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), d.says) {
			t.Errorf("docs/tasks/pool.md does not have %q", d.says)
		}
	}
}

// poolArgs returns the options of -pool for a gateway with other options.
func poolArgs(t *testing.T, args []string) []string {
	t.Helper()
	if *pooled == "" || !slices.Contains(args, "serve") || slices.Contains(args, "--standby") || slices.Contains(args, "--pool") {
		return nil
	}
	var accounts strings.Builder
	for _, user := range []string{testmysql.AppUser, testmysql.RootUser, testmysql.EdUser, "sha256", "sha"} {
		fmt.Fprintf(&accounts, "%s: %s\n", user, testmysql.Password)
	}
	file := filepath.Join(t.TempDir(), "pool.yaml")
	must(t, os.WriteFile(file, []byte(accounts.String()), 0o600))
	more := []string{"--pool", "transaction", "--pool-accounts", file, "--pool-max", "100"}
	if !slices.Contains(args, "--backend-tls") && !slices.Contains(args, "--backend-get-public-key") {
		more = append(more, "--backend-get-public-key") // the gateway itself logs in
	}
	if *pooled == "moved" {
		more = append(more, "--pool-lifetime", "1ns")
	}
	return more
}

// countLent adds what a gateway has lent.
func (p *tare) countLent(t *testing.T) {
	t.Helper()
	if *pooled == "" || p.http == "" {
		return
	}
	select {
	case <-p.exited:
		return
	default:
	}
	request, err := http.NewRequest(http.MethodGet, p.http+"/metrics", nil)
	must(t, err)
	request.SetBasicAuth("viewer", "viewer") // of tests whose gateway has accounts
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "tare_pool_lent_total{") {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			must(t, err)
			pooledLent.Add(int64(n))
		}
	}
}

var idleClients = flag.Int("idle.clients", 1000, "clients of TestIdleClients")

// TestIdleClients states the memory of the gateway for each client that has logged in, sent a statement and is idle.
func TestIdleClients(t *testing.T) {
	const allowed = 12 << 10
	clients := *idleClients
	s := testmysql.Start(t, testmysql.WithArgs(fmt.Sprintf("--max-connections=%d", min(clients+200, 100_000)), "--back-log=1000"))
	p := startTare(t, s.Addr, "--max-connections=0")
	process, err := weigh.Open(p.cmd.Process.Pid)
	must(t, err)
	memory := func() (goBytes, resident int64) {
		for range 2 { // after finalizers of the first cycle
			if status, text := get(t, p.http+"/debug/pprof/heap?gc=1"); status != http.StatusOK {
				t.Fatalf("collect garbage: status %d: %s", status, text)
			}
		}
		scrape, err := weigh.ScrapeMetrics(t.Context(), http.DefaultClient, p.http+"/metrics")
		must(t, err)
		heap, ok := scrape.Sum("go_memory_classes_heap_objects_bytes")
		stacks, both := scrape.Sum("go_memory_classes_heap_stacks_bytes")
		if !ok || !both {
			t.Fatal("the gateway has no metrics of its memory")
		}
		use, err := process.Usage()
		must(t, err)
		return int64(heap + stacks), use.RSS
	}
	connect := func(n int) (conns []net.Conn) {
		conns = make([]net.Conn, n)
		var wg sync.WaitGroup
		for first := range 16 {
			wg.Go(func() {
				for i := first; i < n; i += 16 {
					c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: p.addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, Database: "test"})
					if err == nil {
						_, err = c.Query(t.Context(), "select 1", func(mysqlwire.TextRow) error { return nil })
					}
					if err != nil {
						t.Errorf("client %d: %v", i, err)
						return
					}
					conns[i] = c.NetConn() // without c's buffers
				}
			})
		}
		testwait.Group(t, "the clients to connect", &wg)
		return conns
	}
	first := connect(100)
	heap, resident := memory()
	conns := connect(clients)
	if t.Failed() {
		return
	}
	heap2, resident2 := memory()
	n := int64(clients)
	t.Logf("each of %d idle clients costs %d bytes of heap and stacks, %d resident (-pool=%s)", clients, (heap2-heap)/n, (resident2-resident)/n, *pooled)
	if each := (heap2 - heap) / n; each > allowed {
		t.Errorf("an idle client costs %d bytes, want at most %d", each, allowed)
	}
	for _, c := range slices.Concat(first, conns) {
		c.Close()
	}
}
