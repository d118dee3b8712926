//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/doccommands"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// documentedEnv is set in the process with private namespaces, to the mount namespace that it was started
// from.
const documentedEnv = "E2E_DOCUMENTED"

// TestDocumentedCommands runs the commands of README.md, docs and deploy as printed, page by page, in a root
// with empty directories, a network without other programs, and the host names of the pages. It logs the
// commands that it does not run, with reasons.
func TestDocumentedCommands(t *testing.T) {
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	if outer := os.Getenv(documentedEnv); outer != "" {
		if !strings.HasPrefix(outer, "mnt:[") || outer == mounts {
			t.Fatalf("%s=%s: the mount namespace %s is not private, and the test would hide system directories; unset the variable", documentedEnv, outer, mounts)
		}
		newDocumented(t).pages(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can create the namespaces that the commands run in")
	}
	exe, err := os.Executable()
	must(t, err)
	inside := func(script string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-c", script, exe, "-test.run=^TestDocumentedCommands$", "-test.v", "-test.timeout=20m")
	}
	if out, err := inside("ip link set lo up && mount -t tmpfs tare /mnt").CombinedOutput(); err != nil {
		t.Skipf("no namespaces can be created here: %v\n%s", err, out)
	}
	cmd := inside(`ip link set lo up && exec "$0" "$@"`)
	cmd.Env = append(cmd.Environ(), documentedEnv+"="+mounts)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v: see the output above", err)
	}
}

// unrunnable returns the reason why a command is not run, "" if it is.
func unrunnable(c doccommands.Command) string {
	for _, rule := range []struct{ page, text, why string }{
		{`^docs/background/`, ``, "a measurement: minutes to hours"},
		{`^docs/reference/bench\.md$`, ``, "a measurement, with values of the reader's"},
		{`^deploy/compose/`, ``, "needs docker"},
		{``, `^docker `, "needs docker"},
		{``, `^make (bench-|client-suites|conformance)`, "a measurement, or foreign suites: minutes to hours"},
		{``, `^e2e/run `, "needs servers, browsers and programs of its own"},
		{``, `-conformance\.corpus`, "needs the servers' suites: make suites"},
		{``, `^TARE_MARIADB_DIR=`, "needs MariaDB 11.8: make mariadb"},
		{`^docs/operate/tls\.md$`, `--from-(get-)?public-key`, "needs an account with such a method, and the server's key; cmd/tare's TestImpostorsOfCommands has servers that present one"},
		{`^docs/reference/pages\.md$`, `/api/v1/sessions/kill`, "needs a session of that number; web's TestKillRequests has one"},
		{`^docs/reference/alter\.md$`, ` PARTITION BY `, "needs a table that is to be partitioned; alter's TestAllForms has one"},
		{``, `--web-config-file tls\.yaml`, "needs a certificate and accounts of the reader's; cmd/tare's TestNoTextsAnywhere has them"},
		{``, `^git clone `, "clones the public repository; the test copies the tree"},
		{`^docs/start/install\.md$`, `^(minisign|sha256sum|tar|install|apt) `, "needs the files of a release; TestRelease builds and checks them, make install-drills installs them"},
		{``, `^systemctl `, "needs systemd as init; cmd/tare's TestUnitUser starts the unit's command"},
		{``, `^tare store --bucket s3://metrics `, "needs Amazon's S3"},
		{``, `--to 's3://backup`, "needs Amazon's S3; copier's TestDumpZoo has an S3 server"},
		{``, `--bucket 's3://metrics\?endpoint=`, "needs an S3 server with a public certificate; TestStoreS3 has one of its own"},
		{``, `^tare demo \[`, "a synopsis; make run starts the demo"},
		{``, `--gateway https:`, "needs a gateway with TLS and accounts; cmd/tare's TestScripts/copy and copier's TestGatewayAccount have one"},
		{``, `^tare top --url https:`, "needs a gateway with TLS and accounts; testdata/top.txtar has one with an account"},
	} {
		if regexp.MustCompile(rule.page).MatchString(c.Page) && regexp.MustCompile(rule.text).MatchString(c.Text) {
			return rule.why
		}
	}
	return ""
}

// prerequisites are the commands that a page assumes to have been run.
func prerequisites() map[string]string {
	const gateway = "tare serve --backend mysql://db1:3306"
	return map[string]string{
		"docs/operate/troubleshooting.md":  gateway,
		"docs/reference/top.md":            gateway,
		"docs/reference/promql.md":         "tare store --bucket file:///var/lib/prometheus",
		"docs/tasks/alter-a-table.md":      gateway,
		"docs/tasks/find-the-cause.md":     gateway,
		"docs/tasks/block-statements.md":   "tare serve --config tare.yaml",
		"docs/tasks/list-active-series.md": gateway,
		"docs/tasks/throttle-a-copy.md":    gateway,
		"docs/reference/active-series.md":  gateway,
	}
}

// readersValues replaces placeholders for values of the reader's.
func (d *documented) readersValues(text string) string {
	return strings.NewReplacer(
		"-u you -p", "-u you -psecret",
		"mysql://root@", "mysql://root:"+testmysql.Password+"@",
		"file:///backup/", "file://"+d.work+"/",
		"--to mysql://app@127.0.0.1", "--to mysql://app:secret@db2", // at the target it is the target's address
		"tare copy …", "tare copy --from mysql://app:secret@db1 --to mysql://app:secret@db2 --tables shop.orders,shop.items",
		`"6f0c…"`, `"`+d.token+`"`,
		" …", "",
	).Replace(text)
}

// httpPort returns the port of a server's pages, by the start of its command.
func httpPort(text string) string {
	for _, s := range []struct{ start, port string }{
		{`(bin/)?tare serve `, "8316"}, {`make run$`, "8316"}, {`(bin/)?tare store `, "8317"}, {`(bin/)?tare frontend `, "8318"}, {`(bin/)?tare rowstream `, "8319"},
	} {
		if regexp.MustCompile(`^([A-Z]+=\S+ )?` + s.start).MatchString(text) {
			return s.port
		}
	}
	return ""
}

// documented runs commands in a copy of the repository.
type documented struct {
	work           string // a directory of this namespace
	dir            string // the copy
	path           string // PATH
	home           string // HOME
	source, target *testmysql.Server
	servers        map[string]*background // by the port of their pages
	copying        *background            // a copy that follows
	altering       *background            // a tare alter that copies
	token          string                 // of the latest pause
}

// A background is a command that runs until it is stopped.
type background struct {
	text   string
	cmd    *exec.Cmd
	exited chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *background) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// newDocumented mounts empty directories over those named by the pages, and starts two servers.
func newDocumented(t *testing.T) *documented {
	t.Helper()
	// It is removed with the namespace, and paths of control sockets below it are short.
	const work = "/mnt"
	mustRun(t, "", "mount", "-t", "tmpfs", "tare", work)
	d := &documented{work: work, dir: work + "/tare", servers: make(map[string]*background)}
	goCaches(t)
	mustRun(t, "", "sh", "-ec", `
		work=$1
		for dir in /etc /usr/lib/sysusers.d; do
			mkdir -p "$work/root$dir" && cp -a "$dir/." "$work/root$dir" && mount --bind "$work/root$dir" "$dir"
		done
		mkdir "$work/links" && ln -s "$(command -v mariadb)" "$work/links/mysql"
		mkdir "$work/programs" && mount --bind /usr/local/bin "$work/programs"
		for dir in /var/lib /var/log /usr/local/bin; do mount -t tmpfs tare "$dir"; done
		mkdir -p /etc/tare /etc/systemd/system /etc/bash_completion.d /var/lib/prometheus "$work/tare"
		printf 'app: secret\nreports: "another: secret"\n' | tee accounts.yaml >/etc/tare/accounts.yaml
		echo 'app: secret' >/etc/tare/pool-accounts.yaml
		chmod 0600 /etc/tare/accounts.yaml /etc/tare/pool-accounts.yaml
		cd ..
		cp deploy/tare.yaml /etc/tare/tare.yaml
		git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - | tar -xf - -C "$work/tare"
		mv e2e/accounts.yaml "$work/tare"
	`, "sh", work)
	d.path = filepath.Join(d.dir, "bin") + ":" + filepath.Join(work, "links") + ":" + os.Getenv("PATH") + ":" + filepath.Join(work, "programs")

	accounts := []string{}
	for _, user := range []string{"app", "reader", "watcher", "you"} {
		accounts = append(accounts, "create or replace user "+user+" identified by 'secret'", "grant all on *.* to "+user)
	}
	setup := testmysql.WithSetup(accounts...)
	d.source, d.target = testmysql.Start(t, testmysql.WithBinlog(), setup), testmysql.Start(t, testmysql.WithBinlog(), setup)
	mimir := activeSeriesServer(t)
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	for i, h := range []struct{ name, port, to string }{
		{"db1", "3306", d.source.Addr},
		{"db2", "3306", d.target.Addr},
		{"old", "3306", d.source.Addr},
		{"new", "3306", d.target.Addr},
		{"mimir-1", "8080", mimir},
		{"mimir-2", "8080", mimir},
		{"mimir.example", "8080", mimir},
		{"gw1", "8316", "127.0.0.1:8316"},
		{"gw2", "8316", "127.0.0.1:8316"},
	} {
		ip := fmt.Sprintf("127.0.1.%d", i+1)
		fmt.Fprintln(&hosts, ip, h.name)
		forward(t, net.JoinHostPort(ip, h.port), h.to)
	}
	forward(t, "127.0.0.1:3306", d.source.Addr)
	must(t, os.WriteFile("/etc/hosts", []byte(hosts.String()), 0o644))
	writeBlock(t, "/var/lib/prometheus", 0)
	d.files(t)
	return d
}

// goCaches keeps Go's caches at their paths when HOME changes.
func goCaches(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		must(t, os.Setenv(name, strings.TrimSpace(mustRun(t, "", "go", "env", name))))
	}
}

// files writes the files that commands use without creating them: certificates, a token, rules.
func (d *documented) files(t *testing.T) {
	t.Helper()
	in := func(name string) string { return filepath.Join(d.dir, name) }
	writeCertificate(t, in("cert.pem"), in("key.pem"), "db1")
	cert, err := os.ReadFile(in("cert.pem"))
	must(t, err)
	must(t, os.WriteFile(in("ca.pem"), cert, 0o600))
	must(t, os.WriteFile(in("token"), []byte("a token of the test\n"), 0o600))
	must(t, os.WriteFile(in("tare.yaml"), []byte(pageBlock(t, "../docs/tasks/block-statements.md", "yaml")), 0o600))
}

// forward forwards connections from an address to another until the test ends.
func forward(t *testing.T, addr, to string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go func() {
					_, _ = io.Copy(server, client)
					_ = server.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
}

// activeSeriesServer is a simulated Mimir with one series, in the first shard.
func activeSeriesServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		must(t, r.ParseForm())
		w.Header().Set("Content-Type", "application/json")
		series := ""
		if selector := r.Form.Get("selector"); !strings.Contains(selector, "__query_shard__") || strings.Contains(selector, `"1_of_`) {
			series = `{"__name__":"up","instance":"a","job":"api"}`
		}
		_, _ = io.WriteString(w, `{"data":[`+series+`]}`)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// pages runs all pages.
func (d *documented) pages(t *testing.T) {
	pages, err := doccommands.Pages("..")
	must(t, err)
	before := prerequisites()
	d.newHome(t)
	d.run(t, "make build")
	n := 0
	for _, page := range pages {
		commands, err := doccommands.Read("..", page)
		must(t, err)
		if len(commands) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			d.newHome(t)
			d.reset(t)
			defer d.stop(t, "")
			defer d.stopAlter(t)
			first := true
			for _, c := range commands {
				if why := unrunnable(c); why != "" {
					t.Logf("not run: %s: %s", c, why)
					continue
				}
				if text := before[page]; first && text != "" {
					d.do(t, text)
				}
				first = false
				n++
				t.Logf("run: %s", c)
				d.do(t, c.Text)
				if t.Failed() {
					return
				}
			}
		})
	}
	if n < 50 {
		t.Errorf("%d commands were run: some are missing", n)
	}
}

// newHome gives the commands an empty home directory.
func (d *documented) newHome(t *testing.T) {
	t.Helper()
	home, err := os.MkdirTemp(d.work, "home")
	must(t, err)
	d.home = home
}

// reset creates the source's tables, and empties the target.
func (d *documented) reset(t *testing.T) {
	t.Helper()
	for _, s := range []*testmysql.Server{d.source, d.target} {
		must(t, s.Exec("drop database if exists shop", "drop database if exists _tare", "create database shop"))
	}
	for _, table := range []string{"orders", "items"} {
		must(t, d.source.Exec("create table shop."+table+" (id int primary key, total int)", "insert into shop."+table+" select seq, seq from seq_1_to_1000"))
	}
}

// do runs a command according to its kind.
func (d *documented) do(t *testing.T, printed string) {
	t.Helper()
	text := d.readersValues(printed)
	switch {
	case httpPort(text) != "":
		d.serve(t, text)
	case strings.Contains(text, "--cutover"):
		d.newHome(t) // the clients are at the old server
		d.serve(t, d.servers["8316"].text)
		b := d.start(t, text)
		d.eventually(t, b, "the switch", func() bool {
			_, route := get(t, "http://127.0.0.1:8316/api/v1/route")
			return strings.Contains(route, `"active":"standby"`)
		})
		d.finish(t, b)
	case regexp.MustCompile(`^tare alter (ctl |revert |.*--(postpone-cutover|max-p99|cancel))`).MatchString(text):
		d.alter(t, text)
	case strings.HasPrefix(text, "tare copy ctl"):
		if d.copying == nil {
			d.copying = d.follow(t, d.readersValues("tare copy … --follow --max-p99 20ms --gateway http://127.0.0.1:8316"))
		}
		d.run(t, text)
		if strings.HasSuffix(text, "abort") || strings.HasSuffix(text, "finish") {
			testwait.Receive(t, "the copy to exit", d.copying.exited)
			d.copying = nil
		}
	case strings.Contains(text, " --to file://"):
		must(t, os.RemoveAll(filepath.Join(d.work, "shop")))
		d.reset(t)
		d.run(t, text)
	case strings.Contains(text, "--follow"):
		d.finish(t, d.follow(t, text))
	case strings.HasPrefix(text, "tare top"), strings.HasPrefix(text, "curl -N"):
		b := d.start(t, text)
		d.eventually(t, b, "output", func() bool {
			d.run(t, "mysql -h 127.0.0.1 -P 3316 -u app -psecret -e 'select sleep(0.05)'")
			return b.output() != ""
		})
		d.end(t, b, syscall.SIGTERM)
	default:
		if strings.HasPrefix(text, "tare copy") {
			d.reset(t)
		}
		out := d.run(t, text)
		if _, token, ok := strings.Cut(out, `"token":"`); ok {
			d.token, _, _ = strings.Cut(token, `"`)
		}
	}
}

// command prepares a command line.
func (d *documented) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir = d.dir
	cmd.Stdin = strings.NewReader("select 1;\n")
	cmd.Env = append(os.Environ(), "PATH="+d.path, "HOME="+d.home, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+d.home, "PWD="+d.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs a command to its end, with exit code 0.
func (d *documented) run(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := d.command(ctx, text)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, &out)
	}
	return out.String()
}

// start starts a command.
func (d *documented) start(t *testing.T, text string) *background {
	t.Helper()
	b := &background{text: text, exited: make(chan struct{}), cmd: d.command(context.WithoutCancel(t.Context()), text)}
	b.cmd.Stdout, b.cmd.Stderr = b, b
	must(t, b.cmd.Start())
	go func() {
		_ = b.cmd.Wait() // its code is checked
		close(b.exited)
	}()
	return b
}

// eventually waits for an effect of a command, and fails if the command exits before.
func (d *documented) eventually(t *testing.T, b *background, what string, done func() bool) {
	t.Helper()
	eventually(t, what+" of "+b.text, func() bool {
		select {
		case <-b.exited:
			t.Fatalf("%s: exited with code %d before %s\n%s", b.text, b.cmd.ProcessState.ExitCode(), what, b.output())
		default:
		}
		return done()
	})
}

// serve starts a server, replacing one with the same port, and waits until it is ready.
func (d *documented) serve(t *testing.T, text string) {
	t.Helper()
	port := httpPort(text)
	d.stop(t, port)
	b := d.start(t, text)
	d.servers[port] = b
	d.eventually(t, b, "readiness", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + port + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// follow starts a copy and waits until it follows: before, it refuses to finish.
func (d *documented) follow(t *testing.T, text string) *background {
	t.Helper()
	d.reset(t)
	b := d.start(t, text)
	d.eventually(t, b, "the changes", func() bool {
		status, err := d.command(t.Context(), "tare copy ctl status --json").Output()
		return err == nil && bytes.Contains(status, []byte(`"follow":{`))
	})
	return b
}

// finish finishes a copy that follows, which has to succeed.
func (d *documented) finish(t *testing.T, b *background) {
	t.Helper()
	d.run(t, "tare copy ctl finish")
	testwait.Receive(t, "the copy to exit", b.exited)
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("%s: exit code %d\n%s", b.text, code, b.output())
	}
}

// stop stops the server of a port, or all.
func (d *documented) stop(t *testing.T, port string) {
	t.Helper()
	for p, b := range d.servers {
		if port == "" || p == port {
			d.end(t, b, syscall.SIGTERM)
			delete(d.servers, p)
		}
	}
}

// end stops a command with its children.
func (d *documented) end(t *testing.T, b *background, signal syscall.Signal) {
	t.Helper()
	_ = syscall.Kill(-b.cmd.Process.Pid, signal) // it may have exited
	testwait.Receive(t, b.text+" to exit", b.exited)
}
