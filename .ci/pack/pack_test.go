package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// release writes the directory of an archive with files of a few bytes.
func release(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"tare", "tare-demo", "tare.yaml", "README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "docs/start/install.md", "deploy/tare.yaml",
		"licenses/std@1/LICENSE", "completions/tare.bash", "completions/_tare", "completions/tare.fish", "man/man1/tare.1", "man/man1/tare-serve.1",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReproducible packs the same files twice, with other times: all bytes are equal.
func TestReproducible(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var sums [2]map[string][32]byte
	for i := range sums {
		root, out := release(t), t.TempDir()
		must(t, os.Chtimes(filepath.Join(root, "tare"), time.Time{}, time.Unix(int64(i), 0)))
		must(t, run([]string{"packages", "-version", "v1.2.3-rc.1", "-arch", "arm64", "-root", root, "-deploy", "../../deploy", "-out", out}))
		must(t, run([]string{"image", "-version", "v1.2.3", "-root", "amd64=" + root, "-root", "arm64=" + root, "-out", filepath.Join(out, "image")}))
		files, err := os.ReadDir(out)
		must(t, err)
		sums[i] = make(map[string][32]byte)
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(out, f.Name()))
			must(t, err)
			sums[i][f.Name()] = sha256.Sum256(text)
		}
	}
	for _, name := range []string{"tare_1.2.3~rc.1_arm64.deb", "tare-1.2.3~rc.1-1.aarch64.rpm", "tare-demo_1.2.3~rc.1_arm64.deb", "tare-demo-1.2.3~rc.1-1.aarch64.rpm", "image"} {
		first, ok := sums[0][name]
		if second := sums[1][name]; !ok || first != second {
			t.Errorf("%s: there: %t, the same twice: %t", name, ok, first == second)
		}
	}
	if len(sums[0]) != 5 {
		t.Errorf("%d files, want 4 packages and an image", len(sums[0]))
	}
}

// TestImage reads the layout as a container engine does: the user, the entry point and the platform of each image.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	root, out := release(t), filepath.Join(t.TempDir(), "image")
	must(t, run([]string{"image", "-version", "v1.2.3", "-root", "amd64=" + root, "-root", "arm64=" + root, "-out", out}))
	files := make(map[string][]byte)
	text, err := os.ReadFile(out)
	must(t, err)
	r := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		files[h.Name], err = io.ReadAll(r)
		must(t, err)
	}
	type descriptor struct {
		Digest      string
		MediaType   string
		Annotations map[string]string
		Platform    struct{ OS, Architecture string }
	}
	blob := func(d descriptor, v any) {
		t.Helper()
		must(t, json.Unmarshal(files["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")], v))
	}
	var top, index struct{ Manifests []descriptor }
	must(t, json.Unmarshal(files["index.json"], &top))
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("index: %+v", top)
	}
	blob(top.Manifests[0], &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("platforms: %+v", index)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		blob(index.Manifests[i], &manifest)
		var config struct {
			Architecture string
			Config       struct {
				User       string
				Entrypoint []string
			}
		}
		blob(manifest.Config, &config)
		if p := index.Manifests[i].Platform; p.Architecture != arch || config.Architecture != arch || p.OS != "linux" {
			t.Errorf("image %d: platform %+v, architecture %s", i, p, config.Architecture)
		}
		if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/tare" || len(manifest.Layers) != 3 {
			t.Errorf("%s: %+v, %d layers", arch, config, len(manifest.Layers))
		}
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(authorities()) {
		t.Error("the authorities cannot be read")
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if err := run([]string{"image"}); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("without a time: %v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	for _, args := range [][]string{nil, {"image"}, {"sums"}} {
		if err := run(args); err == nil {
			t.Errorf("%q: accepted", args)
		}
	}
}
