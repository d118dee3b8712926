package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packaged are the files of the package tare, with their modes, besides those of the documentation.
var packaged = map[string]string{
	"/etc/tare/tare.yaml": "640 root:root", "/usr/bin/tare": "755 root:root",
	"/usr/lib/systemd/system/tare.service": "644 root:root", "/usr/lib/systemd/system/tare-store@.service": "644 root:root",
	"/usr/lib/sysusers.d/tare.conf": "644 root:root", "/usr/share/bash-completion/completions/tare": "644 root:root",
	"/usr/share/fish/vendor_completions.d/tare.fish": "644 root:root", "/usr/share/man/man1/tare.1.gz": "644 root:root",
	"/usr/share/man/man1/tare-serve.1.gz": "644 root:root",
}

const documents = "/usr/share/doc/tare/"

// members returns the members of a deb by name, as dpkg does: an ar archive.
func members(t *testing.T, deb []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(deb, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("the package is no ar archive")
	}
	all := map[string][]byte{}
	for len(rest) > 0 {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		must(t, err)
		all[strings.TrimRight(string(rest[:16]), " /")] = rest[60 : 60+size]
		rest = rest[min(60+size+size%2, len(rest)):]
	}
	return all
}

// untar returns a compressed archive's regular files with their contents, and their modes and owners.
func untar(t *testing.T, packed []byte) (contents, modes map[string]string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	contents, modes = map[string]string{}, map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return contents, modes
		}
		must(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		must(t, err)
		name := strings.TrimPrefix(h.Name, ".")
		contents[name], modes[name] = string(text), fmt.Sprintf("%o %s:%s", h.Mode&0o7777, h.Uname, h.Gname)
	}
}

// TestDebContents reads the deb: files with modes, dependencies, the configuration that is kept, and scripts.
func TestDebContents(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	root, out := release(t), t.TempDir()
	must(t, run([]string{"packages", "-version", "v1.2.3", "-arch", "amd64", "-root", root, "-deploy", "../../deploy", "-out", out}))
	text, err := os.ReadFile(filepath.Join(out, "tare_1.2.3_amd64.deb"))
	must(t, err)
	all := members(t, text)
	if got := string(all["debian-binary"]); got != "2.0\n" {
		t.Errorf("the package has format %q", got)
	}
	contents, modes := untar(t, all["data.tar.gz"])
	checkFiles(t, modes, map[string]string{"/usr/share/zsh/vendor-completions/_tare": "644 root:root"})
	if contents["/usr/bin/tare"] != "tare" || !strings.Contains(contents["/usr/lib/systemd/system/tare.service"], "ExecStart=/usr/bin/tare serve") {
		t.Error("the program or the unit's command differs from the archive's")
	}
	control, _ := untar(t, all["control.tar.gz"])
	if got := control["/conffiles"]; strings.TrimSpace(got) != "/etc/tare/tare.yaml" {
		t.Errorf("kept are %q", got)
	}
	for _, line := range []string{"Package: tare\n", "Version: 1.2.3\n", "Architecture: amd64\n", "Depends: procps"} {
		if !strings.Contains(control["/control"], line) {
			t.Errorf("the control file lacks %q:\n%s", line, control["/control"])
		}
	}
	for _, script := range []string{"/postinst", "/postrm"} {
		if control[script] == "" {
			t.Errorf("the package has no %s", script)
		}
		for line := range strings.Lines(control[script]) { // an echo may name them
			if f := strings.Fields(line); len(f) > 1 && f[0] == "systemctl" && slices.Contains([]string{"enable", "start", "restart"}, f[1]) {
				t.Errorf("%s has %q: nothing is to be started", script, line)
			}
		}
	}
	if !strings.Contains(control["/postinst"], "chgrp tare /etc/tare/tare.yaml") { // of the group that it creates
		t.Errorf("/postinst does not give the configuration to the group:\n%s", control["/postinst"])
	}
}

// TestRPMContents lists the rpm's files by the program rpm, where there is one.
func TestRPMContents(t *testing.T) {
	rpm, err := exec.LookPath("rpm")
	if err != nil {
		t.Skip("the program rpm is not installed")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	root, out := release(t), t.TempDir()
	must(t, run([]string{"packages", "-version", "v1.2.3", "-arch", "amd64", "-root", root, "-deploy", "../../deploy", "-out", out}))
	list, err := exec.CommandContext(t.Context(), rpm, "--query", "--package", "--nosignature", "--queryformat",
		`[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]`, filepath.Join(out, "tare-1.2.3-1.x86_64.rpm")).Output()
	must(t, err)
	modes := map[string]string{}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		mode, err := strconv.ParseUint(f[1], 8, 32)
		must(t, err)
		if mode&0o170000 == 0o100000 {
			modes[f[0]] = fmt.Sprintf("%o %s", mode&0o7777, f[2])
		}
		if f[0] == "/etc/tare/tare.yaml" && !strings.Contains(strings.Join(f[3:], ""), "n") {
			t.Errorf("the configuration is not kept: %s", line)
		}
	}
	checkFiles(t, modes, map[string]string{"/usr/share/zsh/site-functions/_tare": "644 root:root"})
}

func checkFiles(t *testing.T, modes, more map[string]string) {
	t.Helper()
	documented := 0
	for name, mode := range modes {
		want, ok := packaged[name]
		if !ok {
			want, ok = more[name]
		}
		switch {
		case ok && mode != want:
			t.Errorf("%s has %s, want %s", name, mode, want)
		case !ok && strings.HasPrefix(name, documents) && mode == "644 root:root":
			documented++
		case !ok:
			t.Errorf("%s (%s) is not expected", name, mode)
		}
	}
	for _, files := range []map[string]string{packaged, more} {
		for name := range files {
			if modes[name] == "" {
				t.Errorf("%s is missing", name)
			}
		}
	}
	for _, name := range []string{"README.md", "LICENSE", "docs/start/install.md", "licenses/std@1/LICENSE"} {
		if modes[documents+name] == "" {
			t.Errorf("%s is missing among %d documents", name, documented)
		}
	}
}

// TestDemoContents requires that the demo's package has its program and its license alone.
func TestDemoContents(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	root, out := release(t), t.TempDir()
	must(t, run([]string{"packages", "-version", "v1.2.3", "-arch", "amd64", "-root", root, "-deploy", "../../deploy", "-out", out}))
	text, err := os.ReadFile(filepath.Join(out, "tare-demo_1.2.3_amd64.deb"))
	must(t, err)
	contents, _ := untar(t, members(t, text)["data.tar.gz"])
	var names []string
	for name := range contents {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"/usr/bin/tare-demo", "/usr/share/doc/tare-demo/LICENSE"}; !slices.Equal(names, want) {
		t.Errorf("the package has %q", names)
	}
}
