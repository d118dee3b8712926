package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSecretSpan(t *testing.T) {
	for _, c := range []struct {
		arg, want string
		whole     bool
	}{
		{"--control=mysql://tare:hidden@db:3306", "--control=mysql://tare:xxxxxx@db:3306", false},
		{"mysql://tare:hid@den@db:3306", "mysql://tare:xxxxxxx@db:3306", false},
		{"mysql://tare:hid/de:n@db", "mysql://tare:xxxxxxxx@db", false},
		{"http://a:hidden@h,http://b:hidden@h", "http://a:" + strings.Repeat("x", 24) + "@h", false},
		{"--token=hidden", "--token=xxxxxx", false},
		{"--from-token=a=b", "--from-token=xxx", false},
		{"hidden", "xxxxxx", true},
		{"mysql://tare@db:3306", "mysql://tare@db:3306", false},
		{"mysql://db:3306", "mysql://db:3306", false},
		{"app:hidden@tcp(db:3306)/shop", "app:xxxxxx@tcp(db:3306)/shop", false},
		{"--dsn=app:hid:d@n@tcp(db:3306)/shop", "--dsn=app:xxxxxxx@tcp(db:3306)/shop", false},
		{"a:b@c", "a:b@c", false},
		{"--token-file=name", "--token-file=name", false},
	} {
		from, to := secretSpan(c.arg, c.whole)
		if got := c.arg[:from] + strings.Repeat("x", to-from) + c.arg[to:]; got != c.want {
			t.Errorf("%s: %s, want %s", c.arg, got, c.want)
		}
	}
}

// TestSecretsInArguments runs a gateway with passwords in its arguments: neither the process list nor
// /debug/pprof/cmdline shows them, and the gateway still has them.
func TestSecretsInArguments(t *testing.T) {
	if os.Getenv("TARE_TEST_ARGS") != "" {
		args := takeArgs()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := http.Server{Handler: http.DefaultServeMux, ReadHeaderTimeout: time.Minute}
		http.HandleFunc("/args", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Join(args, " ")) })
		http.HandleFunc("/cmdline", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Join(os.Args, " ")) })
		fmt.Fprintln(os.Stdout, "http://"+l.Addr().String())
		_ = served.Serve(l)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestSecretsInArguments", "--", "--control", "mysql://tare:hidden1@db", "--token", "hidden2", "--from-token=hidden3")
	cmd.Env = append(os.Environ(), "TARE_TEST_ARGS=1", "TMPDIR="+t.TempDir()) // a killed process does not remove its files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		res, err := http.Get(strings.TrimSpace(url) + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if args := get("/args"); strings.Count(args, "hidden") != 3 {
		t.Errorf("the arguments are %q", args)
	}
	shown := get("/cmdline")
	if runtime.GOOS == "linux" {
		list, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		shown += string(list)
	}
	if strings.Contains(shown, "hidden") || !strings.Contains(shown, "mysql://tare:xxxxxxx@db") {
		t.Errorf("shown is %q", shown)
	}
}

// TestErrorsHidePasswords gives URLs with passwords to options, arguments and files that have none, each with a mistake.
func TestErrorsHidePasswords(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{
		"mysql://app:hidden1@[bad", "mysql://app:hidden1@h:x", "mysql://app:hid/den1@h", "mysql://app:hidden1%zz@h", "mysql://app:hidden1@", "mysql//app:hidden1@h",
		"app:hidden1@h:3306", "app:hidden1@tcp(h:x)/a", "mysql://:hidden1@h", "mysql://app:@hidden1@h", `mysql://app:hid"den1@h`, "mysql://app:hidden1@a,mysql://b:hidden1@[x",
	} {
		must(t, os.WriteFile("serve.yaml", []byte("serve:\n  listen: '"+url+"'\n"), 0o600))
		for _, args := range [][]string{
			{"serve", "--listen", url},
			{"serve", "--http", url},
			{"serve", "--config", url},
			{"serve", "--control", url, "--http", "x"},
			{"serve", url},
			{"serve", "--config", "serve.yaml"},
			{url},
			{"config", url},
			{"config", "--config", url},
			{"copy", "--from", "mysql://a@h", "--to", url, "--tables", url},
			{"copy", "--from", url, "--to", "mysql://a@h", "--tables", "a.b", "--where", url},
			{"alter", "--on", "mysql://a@h", "--table", url, url},
			{"bench", "oltp", "--dsn", url},
			{"ready", url},
			{"top", url},
			{"store", "--bucket", url, "--http", "x"},
			{"serve", "--" + url},
		} {
			var out bytes.Buffer
			if code := run(t.Context(), args, &out, &out); code == exitOK {
				t.Errorf("%q: exit 0", args)
			}
			if strings.Contains(out.String(), "den1") || out.Len() == 0 {
				t.Errorf("%q prints %s", args, &out)
			}
		}
	}
	for _, message := range []string{
		`log in to 127.0.0.1:3306 as "app": server error 1045 (28000): Access denied for user 'app'@'h'`, "connect to mysql://app@h:3306, then mysql://b@c", "a: b@c",
	} {
		if got := masked(message); got != message {
			t.Errorf("%s becomes %s", message, got)
		}
	}
}
