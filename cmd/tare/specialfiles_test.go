package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/testwait"
)

// TestPipesAsFiles sets each option for a file to a pipe without a writer: the command does not wait for a writer, and its error
// names the pipe.
func TestPipesAsFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, file, web := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "web.yaml")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key)
	accounts := filepath.Join(dir, "accounts.yaml")
	must(t, os.WriteFile(accounts, []byte("app: secret\n"), 0o600))
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(file, []byte("text\n"), 0o600))
	must(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: pipe, key_file: pipe}\n"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	must(t, syscall.Mkfifo(filepath.Join(dir, "data", routeName), 0o600))
	const account, nobody, standby = "mysql://u:p@127.0.0.1:1", "mysql://127.0.0.1:1", "mysql://127.0.0.1:2"
	commands := map[string]string{
		"serve":     "--backend " + nobody + " --listen 127.0.0.1:0 --http 127.0.0.1:0",
		"store":     "--bucket file://DIR --http 127.0.0.1:0",
		"frontend":  "--downstream https://127.0.0.1:1 --http 127.0.0.1:0",
		"rowstream": "--from " + account + " --listen 127.0.0.1:0 --http 127.0.0.1:0",
		"copy":      "--to " + account + " --tables a.b --patience 1ms --control-socket off",
		"alter":     "--on " + account + " --table a.b --patience 1ms --control-socket off",
	}
	tests := map[string]map[string]string{ // by command and option; more options
		"serve": {
			"config": "", "web-config-file": "", "web-accounts-file": "", "tls-cert": "--tls-key FILE", "tls-key": "--tls-cert FILE",
			"tls-client-ca": "--client-tls verify", "backend-tls-ca": "--backend-tls verify-ca", "backend-public-key": "", "copies-public-key": "--copies " + account,
			"standby-accounts": "--standby " + standby + " --data-dir DIR/other", "pool-accounts": "--pool transaction",
			"history-remote-write-ca": "--bucket file://DIR/bucket --data-dir DIR/other --history-remote-write https://127.0.0.1:1/write",
		},
		"store": {
			"config": "", "web-config-file": "", "web-accounts-file": "", "tenant-limits": "", "grpc-token-file": "--grpc 127.0.0.1:0",
			"grpc-tls-cert": "--grpc 127.0.0.1:0 --grpc-tls-key FILE", "grpc-tls-key": "--grpc 127.0.0.1:0 --grpc-tls-cert FILE",
			"grpc-tls-client-ca": "--grpc 127.0.0.1:0 --grpc-tls-cert CERT --grpc-tls-key KEY",
		},
		"frontend": {"config": "", "web-config-file": "", "web-accounts-file": "", "downstream-ca": ""},
		"rowstream": {
			"config": "", "web-config-file": "", "web-accounts-file": "", "token-file": "", "from-ca": "--from-tls verify-ca", "from-public-key": "",
			"tls-cert": "--tls-key FILE", "tls-key": "--tls-cert FILE", "tls-client-ca": "--tls-cert CERT --tls-key KEY",
		},
		"copy": {
			"config": "", "from-token-file": "--from tare://127.0.0.1:1", "from-public-key": "--from " + account, "to-public-key": "--from " + account,
			"tls-ca": "--from " + account + " --from-tls verify-ca", "gateway-token-file": "--from " + account + " --gateway http://127.0.0.1:1 --max-p99 1s",
			"gateway-ca":      "--from " + account + " --gateway https://127.0.0.1:1 --max-p99 1s",
			"web-config-file": "--from " + account + " --http 127.0.0.1:0", "web-accounts-file": "--from " + account + " --http 127.0.0.1:0",
		},
		"alter": {
			"config": "", "on-public-key": "", "tls-ca": "--on-tls verify-ca", "gateway-token-file": "--gateway http://127.0.0.1:1",
			"gateway-ca": "--gateway https://127.0.0.1:1", "web-config-file": "--http 127.0.0.1:0", "web-accounts-file": "--http 127.0.0.1:0",
		},
	}
	later := map[string]bool{"log-file": true, "control-socket": true, "history-remote-write-token-file": true} // not read at the start
	for _, c := range config.Commands() {
		for _, o := range c.Set().Options() {
			if _, ok := tests[c.Set().Name][o.Name]; o.Kind == "file" && !ok && !later[o.Name] {
				t.Errorf("tare %s --%s is not tested", c.Set().Name, o.Name)
			}
		}
	}
	fails := func(line string) {
		t.Helper()
		args := strings.Fields(strings.NewReplacer("DIR", dir, "FILE", file, "PIPE", pipe, "ACCOUNTS", accounts, "CERT", cert, "KEY", key).Replace(line))
		var out bytes.Buffer
		done := make(chan int, 1)
		go func() { done <- run(context.Background(), args, &out, &out) }()
		code := testwait.Receive(t, line, done)
		refused := strings.Contains(out.String(), "not a regular file") || strings.Contains(out.String(), "the pipe is empty")
		if named := strings.Contains(out.String(), "pipe:") || strings.Contains(out.String(), routeName); code == exitOK || !named || !refused {
			t.Errorf("%s: exit code %d, want an error that names the pipe:\n%s", line, code, out.String())
		}
	}
	for command, options := range tests {
		for option, more := range options {
			line := command + " " + commands[command] + " --" + option + " PIPE " + more
			if command == "alter" {
				line += " engine=innodb"
			}
			fails(line)
		}
	}
	fails("serve " + commands["serve"] + " --web-config-file " + web)
	fails("serve " + commands["serve"] + " --standby " + standby + " --standby-accounts ACCOUNTS --data-dir DIR/data")
	fails("store --http 127.0.0.1:0 --bucket s3://bucket?endpoint=127.0.0.1:1&ca_file=PIPE")
	fails("store --http 127.0.0.1:0 --bucket s3://bucket?config_file=PIPE")
	fails("alter --on " + account + " --queue PIPE")
	fails("config check PIPE")
	fails("config print --config PIPE")
	fails("ready --token-file PIPE")
	fails("top --once --password-file PIPE --user a")
	fails("top --once --url https://127.0.0.1:1 --ca PIPE")
	fails("bench oltp --dsn u:p@tcp(127.0.0.1:1)/d?public-key=PIPE")
}
