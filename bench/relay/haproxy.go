package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/taredb/tare/bench/programs"
)

// haproxyConfig is HAProxy's default configuration, except for mandatory settings, the number of connections
// and, with TLS, the cipher that tare negotiates. It runs one thread per CPU.
const haproxyConfig = `global
    maxconn 4096
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
`

// listen is a section of the configuration: a listener, its server, and the TLS options of both.
const haproxyListen = `listen %s
    bind %s%s
    server db %s%s
`

// cipher is the suite that Go's crypto/tls prefers on machines with AES instructions; OpenSSL prefers a longer key.
const cipher = "TLS_AES_128_GCM_SHA256"

func (l *lab) startHAProxy(ctx context.Context, addr string) (*way, error) {
	if l.options.TLS {
		return l.startHAProxyTLS(ctx, addr)
	}
	w := &way{by: byHAProxy}
	file, err := l.writeFile("haproxy.cfg", fmt.Sprintf(haproxyConfig+haproxyListen, "mysql", addr, "", l.server.Addr, ""))
	if err != nil {
		return nil, err
	}
	w.process, err = programs.Serve(ctx, byHAProxy, addr, l.tools.haproxy, "-db", "-q", "-f", file)
	return w, err
}

// startHAProxyTLS starts a HAProxy that decrypts and encrypts on both sides. In TCP mode it expects TLS from the
// first byte, where MySQL has a greeting in clear: a second process encrypts what sysbench sends, and decrypts for
// the server. It is not measured, but uses the machine's CPUs.
//
//	sysbench ──clear──► legs ──TLS──► haproxy ──TLS──► legs ──clear──► mariadbd
func (l *lab) startHAProxyTLS(ctx context.Context, addr string) (*way, error) {
	front, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	back, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	pem, err := l.joinPEM()
	if err != nil {
		return nil, err
	}
	bind, server := " ssl crt "+pem+" ciphersuites "+cipher, " ssl verify none ciphersuites "+cipher
	w := &way{by: byHAProxy, addr: front}
	file, err := l.writeFile("haproxy.cfg", fmt.Sprintf(haproxyConfig+haproxyListen, "mysql", addr, bind, back, server))
	if err != nil {
		return nil, err
	}
	legs, err := l.writeFile("legs.cfg", fmt.Sprintf(haproxyConfig+haproxyListen+haproxyListen,
		"front", front, "", addr, server, "back", back, bind, l.server.Addr, ""))
	if err != nil {
		return nil, err
	}
	if w.process, err = programs.Serve(ctx, byHAProxy, addr, l.tools.haproxy, "-db", "-q", "-f", file); err != nil {
		return w, err
	}
	w.legs, err = programs.Serve(ctx, "legs", front, l.tools.haproxy, "-db", "-q", "-f", legs)
	return w, err
}

// joinPEM writes the server's certificate and key to one file, as HAProxy reads them.
func (l *lab) joinPEM() (string, error) {
	cert, err := os.ReadFile(l.certificate)
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(l.key)
	if err != nil {
		return "", err
	}
	return l.writeFile("haproxy.pem", string(cert)+string(key))
}

// writeFile writes a file to the lab's directory.
func (l *lab) writeFile(name, text string) (path string, err error) {
	path = filepath.Join(l.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// sysbenchFiles are the names that sysbench reads from its working directory with --mysql-ssl, which it requires
// even if the server requests no certificate.
var sysbenchFiles = [...]string{"cacert.pem", "client-cert.pem", "client-key.pem"} //nolint:gochecknoglobals // a table

// prepareTLS makes the server's certificate available to tare, HAProxy and sysbench.
func (l *lab) prepareTLS() error {
	dir := filepath.Dir(l.server.CAFile)
	l.certificate, l.key = filepath.Join(l.dir, sysbenchFiles[1]), filepath.Join(l.dir, sysbenchFiles[2])
	var errs []error
	for i, from := range [...]string{"ca.pem", "cert.pem", "key.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		if err == nil {
			_, err = l.writeFile(sysbenchFiles[i], string(text))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
