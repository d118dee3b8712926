package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// unitUID is an account without other files.
const unitUID = 61_316

// TestUnitUser runs the unit's command as the user of the unit, over files installed as described in the
// unit's header: it starts with --standby-accounts, and a reload reads new rules.
func TestUnitUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run a command as another user")
	}
	text, err := os.ReadFile("../../deploy/systemd/tare.service")
	must(t, err)
	line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindSubmatch(text)
	if line == nil || !strings.Contains(string(text), "\nUser=tare\n") {
		t.Fatal("the unit has no command, or no user")
	}
	dir, err := os.MkdirTemp("", "tare-unit-") //nolint:usetesting // the parents of t.TempDir are closed to other users
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	install := func(name, text string, uid int, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		must(t, os.Chmod(path, mode))
		must(t, os.Chown(path, uid, unitUID))
		return path
	}
	exe, err := os.Executable()
	must(t, err)
	binary, err := os.ReadFile(exe)
	must(t, err)
	tare := install("tare", string(binary), 0, 0o755)
	accounts := install("accounts.yaml", "app: secret\n", unitUID, 0o600)
	config := "serve:\n  listen: 127.0.0.1:0\n  http: 127.0.0.1:0\n  backend: mysql://127.0.0.1:1\n  standby: mysql://127.0.0.1:2\n" +
		"  standby-accounts: " + accounts + "\n  diag-format: json\n"
	file := install("tare.yaml", config, 0, 0o640)
	state := filepath.Join(dir, "state")
	must(t, os.Mkdir(state, 0o700))
	must(t, os.Chown(state, unitUID, unitUID))

	args := strings.Fields(strings.NewReplacer("/usr/local/bin/tare", tare, "/etc/tare/tare.yaml", file).Replace(string(line[1])))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"STATE_DIRECTORY=" + state}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unitUID, Gid: unitUID}}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test has failed
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	type event struct {
		Msg   string
		Rules int
	}
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			e := event{Msg: lines.Text()}
			_ = json.Unmarshal(lines.Bytes(), &e) // other lines are not JSON
			events <- e
		}
		_, _ = io.Copy(io.Discard, stderr)
	}()
	await := func(msg string) event {
		t.Helper()
		for {
			e := testwait.Receive(t, msg, events)
			if strings.Contains(e.Msg, "rules stay") {
				t.Fatal(e.Msg)
			}
			if e.Msg == msg {
				return e
			}
			if e == (event{}) {
				t.Fatalf("the gateway stopped before %q", msg)
			}
		}
	}
	await("listening")
	install("tare.yaml", config+"  rules:\n    - name: no-t\n      tables: [shop.t]\n      action: block\n      message: 'no'\n", 0, 0o640)
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	if e := await("rules reloaded"); e.Rules != 1 {
		t.Errorf("a reload reads %d rules, want 1", e.Rules)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	await("shutting down")
	must(t, cmd.Wait())
}

// TestUnitHeaders checks that the files that the headers of units install are in a release's archive.
func TestUnitHeaders(t *testing.T) {
	install := regexp.MustCompile(`(?m)^# +install (?:-\S+ (?:[a-z0-9]+ )?)*(\S+) (\S+)$`)
	for _, unit := range []string{"tare.service", "tare-store@.service"} {
		text, err := os.ReadFile(filepath.Join("../../deploy/systemd", unit))
		must(t, err)
		found := 0
		for _, m := range install.FindAllSubmatch(text, -1) {
			source := string(m[1])
			found++
			switch {
			case source == "tare", source == "tare.yaml", source == "accounts.yaml": // the program, the sample, a file of the operator
			case strings.HasPrefix(source, "deploy/"): // copied by releasedocs
				if _, err := os.Stat(filepath.Join("../..", source)); err != nil {
					t.Errorf("%s: %v", unit, err)
				}
			default:
				t.Errorf("%s: an archive has no %s", unit, source)
			}
		}
		if found < 4 {
			t.Errorf("%s: %d files are installed", unit, found)
		}
	}
}

// TestUnitCalls checks that the filter of the unit allows each system call that Tare makes beside those of Go's runtime.
func TestUnitCalls(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze on this machine")
	}
	text, err := os.ReadFile("../../deploy/systemd/tare.service")
	must(t, err)
	var expand func(name string, visit func(string))
	expand = func(name string, visit func(string)) {
		if !strings.HasPrefix(name, "@") {
			visit(name)
			return
		}
		out, err := exec.Command(analyze, "syscall-filter", name).Output()
		must(t, err)
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); line != name && line != "" && !strings.HasPrefix(line, "#") {
				expand(line, visit)
			}
		}
	}
	allowed := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllSubmatch(text, -1) {
		for name := range strings.FieldsSeq(string(m[2])) {
			expand(name, func(call string) { allowed[call] = len(m[1]) == 0 })
		}
	}
	// lowpriority, netloop, slab, localstate and the files that are mapped.
	for _, call := range []string{"setpriority", "eventfd2", "epoll_create1", "epoll_ctl", "mmap", "mprotect", "munmap", "flock", "fallocate", "fstatfs", "statfs"} {
		if !allowed[call] {
			t.Errorf("the unit does not allow %s", call)
		}
	}
	if allowed["chroot"] || allowed["setrlimit"] || allowed["ptrace"] {
		t.Error("the filter allows more than it says")
	}
}

// TestSysusers has systemd create the unit's user in an empty root.
func TestSysusers(t *testing.T) {
	sysusers, err := exec.LookPath("systemd-sysusers")
	if err != nil || os.Getuid() != 0 {
		t.Skip("systemd-sysusers and root are required")
	}
	file, err := filepath.Abs("../../deploy/systemd/tare.sysusers")
	must(t, err)
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	if out, err := exec.Command(sysusers, "--root="+root, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passwd, err := os.ReadFile(filepath.Join(root, "etc", "passwd"))
	if err != nil || !strings.HasPrefix(string(passwd), "tare:") {
		t.Errorf("passwd is %q (%v)", passwd, err)
	}
}
