package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// packages writes a deb and an rpm of the gateway, and of the demo, for one architecture.
func packages(o options) error {
	work, err := os.MkdirTemp("", "tare-pack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, format := range []string{"deb", "rpm"} {
		contents, err := gatewayFiles(o, work, format)
		if err != nil {
			return err
		}
		server := info(o, "tare", "MySQL gateway that measures every query", contents)
		server.Depends = []string{map[string]string{"deb": "procps", "rpm": "util-linux"}[format]} // kill, for reloads
		server.Scripts = nfpm.Scripts{
			PostInstall: filepath.Join(o.deploy, "packages/postinstall"),
			PreRemove:   filepath.Join(o.deploy, "packages/preremove"),
			PostRemove:  filepath.Join(o.deploy, "packages/postremove"),
		}
		if err := write(o, server, format); err != nil {
			return err
		}
		demo := info(o, "tare-demo", "In-memory engine of tare demo", files.Contents{
			o.file("tare-demo", "/usr/bin/tare-demo", 0o755),
			o.file("LICENSE", "/usr/share/doc/tare-demo/LICENSE", 0o644),
		})
		demo.Depends = []string{"tare"}
		if err := write(o, demo, format); err != nil {
			return err
		}
	}
	return nil
}

func info(o options, name, description string, contents files.Contents) *nfpm.Info {
	i := &nfpm.Info{
		Name: name, Arch: o.arch, Platform: "linux", Version: o.version, Section: "database", Priority: "optional",
		Maintainer: "The Tare authors", Description: description,
		Homepage: "https://github.com/taredb/tare", License: "Apache-2.0", MTime: o.time,
	}
	i.Contents = contents
	i.RPM.BuildHost = "localhost"
	i.RPM.Summary = description
	return i
}

// root returns the directory of the archive.
func (o options) root() string { return o.roots[""] }

// file is a file of the archive at a path of the package.
func (o options) file(name, to string, mode fs.FileMode) *files.Content {
	return &files.Content{Source: filepath.Join(o.root(), name), Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: o.time}}
}

// gatewayFiles lists the files of the package tare. Files that differ from the archive's are written to work.
func gatewayFiles(o options, work, format string) (files.Contents, error) {
	all := files.Contents{o.file("tare", "/usr/bin/tare", 0o755)}
	generated := func(name, text, to string) error {
		from := filepath.Join(work, name)
		if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
			return err
		}
		all = append(all, &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: o.time}})
		return nil
	}
	for _, unit := range []string{"tare.service", "tare-store@.service"} {
		text, err := os.ReadFile(filepath.Join(o.deploy, "systemd", unit))
		if err != nil {
			return nil, err
		}
		if err := generated(unit, strings.ReplaceAll(string(text), "/usr/local/bin/tare", "/usr/bin/tare"), "/usr/lib/systemd/system/"+unit); err != nil {
			return nil, err
		}
	}
	users, err := os.ReadFile(filepath.Join(o.deploy, "systemd/tare.sysusers"))
	if err != nil {
		return nil, err
	}
	if err := generated("tare.conf", string(users), "/usr/lib/sysusers.d/tare.conf"); err != nil {
		return nil, err
	}
	config := o.file("tare.yaml", "/etc/tare/tare.yaml", 0o640)
	config.Type = files.TypeConfigNoReplace
	all = append(all, config, &files.Content{Destination: "/etc/tare", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: o.time}})

	zsh := "/usr/share/zsh/vendor-completions/_tare"
	if format == "rpm" {
		zsh = "/usr/share/zsh/site-functions/_tare"
	}
	all = append(all,
		o.file("completions/tare.bash", "/usr/share/bash-completion/completions/tare", 0o644),
		o.file("completions/_tare", zsh, 0o644),
		o.file("completions/tare.fish", "/usr/share/fish/vendor_completions.d/tare.fish", 0o644))

	pages, err := filepath.Glob(filepath.Join(o.root(), "man/man1/*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(text); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		name := filepath.Base(page) + ".gz"
		if err := generated(name, packed.String(), "/usr/share/man/man1/"+name); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "docs", "deploy", "licenses"} {
		err := filepath.WalkDir(filepath.Join(o.root(), name), func(from string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			rel, err := filepath.Rel(o.root(), from)
			if err != nil {
				return err
			}
			all = append(all, o.file(rel, path.Join("/usr/share/doc/tare", filepath.ToSlash(rel)), 0o644))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// write creates the package in the directory of the options, under the conventional name of its format.
func write(o options, i *nfpm.Info, format string) error {
	i = nfpm.WithDefaults(i)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(i, format); err != nil {
		return fmt.Errorf("%s of %s: %w", format, i.Name, err)
	}
	f, err := os.Create(filepath.Join(o.out, packager.ConventionalFileName(i)))
	if err != nil {
		return err
	}
	if err := packager.Package(i, f); err != nil {
		return fmt.Errorf("%s of %s: %w", format, i.Name, err)
	}
	return f.Close()
}
