package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group of the image's processes, and the owner of imageState.
const imageUser = 65532

// imageState is the image's volume, the default of --data-dir.
const imageState = "/var/lib/tare"

// image writes an OCI image layout as a tar file, with an image for each architecture: static binaries, certificate
// authorities, and nothing else.
func image(o options) error {
	if len(o.roots) == 0 {
		return errors.New("want -root ARCH=DIR for each architecture")
	}
	index := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	for _, arch := range slices.Sorted(maps.Keys(o.roots)) {
		img, err := imageOf(o, arch)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir, err := os.MkdirTemp("", "tare-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The layout has one entry, the index of the architectures, under the name of the version: docker load and podman load
	// choose the architecture of the machine.
	top := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": strings.TrimPrefix(o.version, "v"),
			"io.containerd.image.name":          "docker.io/library/tare:" + strings.TrimPrefix(o.version, "v"),
		}},
	})
	if _, err := layout.Write(dir, top); err != nil {
		return err
	}
	f, err := os.Create(o.out)
	if err != nil {
		return err
	}
	if err := archive(f, dir, o); err != nil {
		return err
	}
	return f.Close()
}

func imageOf(o options, arch string) (v1.Image, error) {
	config := &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: o.time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%[1]d", imageUser), Entrypoint: []string{"/tare"}, Cmd: []string{"help"}, StopSignal: "SIGTERM", WorkingDir: "/",
			Env:          []string{"PATH=/", "STATE_DIRECTORY=" + imageState},
			ExposedPorts: map[string]struct{}{"3316/tcp": {}, "8316/tcp": {}},
			Volumes:      map[string]struct{}{imageState: {}},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "tare",
				"org.opencontainers.image.version":  o.version,
				"org.opencontainers.image.source":   "https://github.com/taredb/tare",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	}
	img, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), config)
	if err != nil {
		return nil, err
	}
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	root := o.roots[arch]
	layers := [][]entry{{
		{name: "etc/"}, {name: "etc/ssl/"}, {name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", text: authorities()},
		{name: "var/"}, {name: "var/lib/"}, {name: strings.TrimPrefix(imageState, "/") + "/", owned: true},
	}}
	for _, program := range []string{"tare-demo", "tare"} { // the demo's layer is larger, and changes less often
		text, err := os.ReadFile(filepath.Join(root, program))
		if err != nil {
			return nil, err
		}
		layers = append(layers, []entry{{name: program, text: text, mode: 0o755}})
	}
	for _, entries := range layers {
		text, err := tarOf(entries, o)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: o.time}, CreatedBy: ".ci/pack"}})
		if err != nil {
			return nil, err
		}
	}
	return img, nil
}

// An entry is a file of a layer, or a directory if its name ends with a slash.
type entry struct {
	name  string
	text  []byte
	mode  int64
	owned bool // by the image's user
}

func tarOf(entries []entry, o options) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o755, ModTime: o.time, Typeflag: tar.TypeDir, Format: tar.FormatUSTAR}
		if !strings.HasSuffix(e.name, "/") {
			h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o644, int64(len(e.text))
			if e.mode != 0 {
				h.Mode = e.mode
			}
		}
		if e.owned {
			h.Uid, h.Gid, h.Mode = imageUser, imageUser, 0o700
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// authorities returns Mozilla's certificate authorities in PEM, as of the module's version. Those that are trusted for older
// certificates alone are left out, since PEM cannot express the condition.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer does not fail
		}
	}
	return out.Bytes()
}

// archive writes a directory as a tar file, in the order of names.
func archive(out io.Writer, dir string, o options) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(from string, d os.DirEntry, err error) error {
		if err != nil || from == dir {
			return err
		}
		name, err := filepath.Rel(dir, from)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, ModTime: o.time, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if d.IsDir() {
			h.Name, h.Mode, h.Typeflag = h.Name+"/", 0o755, tar.TypeDir
			return w.WriteHeader(h)
		}
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		stat, err := f.Stat()
		if err != nil {
			return err
		}
		h.Size = stat.Size()
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
