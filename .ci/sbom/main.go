// Command sbom writes the bill of materials of a Go binary as CycloneDX JSON, and the license files of the modules in it.
// Its output is a function of the binary, its modules and SOURCE_DATE_EPOCH. Modules are read from the module cache.
//
//	sbom -name tare -version v0.1.0 -out tare.cdx.json -licenses DIR bin/tare
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	name := flag.String("name", "", "name of the program")
	version := flag.String("version", "", "version of the program")
	out := flag.String("out", "", "file for the bill of materials")
	licenses := flag.String("licenses", "", "directory for the license files of the modules; empty: none are copied")
	flag.Parse()
	if err := run(flag.Arg(0), *name, *version, *out, *licenses); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func run(binary, name, version, out, licenses string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", binary, err)
	}
	bom, err := materials(binary, name, version, info)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if licenses == "" {
		return nil
	}
	return copyLicenses(info, licenses)
}

// materials lists the binary's modules and Go's standard library.
func materials(binary, name, version string, info *debug.BuildInfo) (*cdx.BOM, error) {
	hash, err := sum(binary)
	if err != nil {
		return nil, err
	}
	bom := cdx.NewBOM()
	program := cdx.Component{
		BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hash}},
	}
	bom.Metadata = &cdx.Metadata{Component: &program}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970: %w", err)
		}
		bom.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + std, Type: cdx.ComponentTypeLibrary, Name: "std", Version: std, PackageURL: "pkg:golang/std@" + std,
	}}
	for _, m := range modules(info) {
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: "pkg:golang/" + m.Path + "@" + m.Version}
		c.BOMRef = c.PackageURL
		if b64, ok := strings.CutPrefix(m.Sum, "h1:"); ok { // the SHA-256 of a list of files and their hashes
			raw, err := base64.StdEncoding.DecodeString(b64)
			if err != nil {
				return nil, fmt.Errorf("sum of %s: %w", m.Path, err)
			}
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
		components = append(components, c)
	}
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &refs}}
	return bom, nil
}

// modules returns the modules of a binary, with replacements applied. A directory in place of a module is this repository.
func modules(info *debug.BuildInfo) []*debug.Module {
	var out []*debug.Module
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if !strings.HasPrefix(m.Path, ".") {
			out = append(out, m)
		}
	}
	return out
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-._].*)?$`)

// copyLicenses copies the license files of each module to dir/MODULE@VERSION/. A module without one is an error.
func copyLicenses(info *debug.BuildInfo, dir string) error {
	roots := []struct{ name, root string }{{"std@" + strings.TrimPrefix(info.GoVersion, "go"), ""}}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	roots[0].root = strings.TrimSpace(string(goroot))
	for _, m := range modules(info) {
		root, err := moduleDir(m)
		if err != nil {
			return err
		}
		roots = append(roots, struct{ name, root string }{m.Path + "@" + m.Version, root})
	}
	for _, r := range roots {
		entries, err := os.ReadDir(r.root)
		if err != nil {
			return err
		}
		copied := 0
		for _, e := range entries {
			if e.IsDir() || !licenseName.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(r.root, e.Name()))
			if err != nil {
				return err
			}
			to := filepath.Join(dir, filepath.FromSlash(r.name))
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, e.Name()), text, 0o644); err != nil {
				return err
			}
			copied++
		}
		if copied == 0 {
			return fmt.Errorf("%s: no license file in the module's root", r.name)
		}
	}
	return nil
}

// moduleDir returns the directory of a module in the module cache, which it downloads into it if necessary.
func moduleDir(m *debug.Module) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", m.Path+"@"+m.Version).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", m.Path, m.Version, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", m.Path, m.Version, err)
	}
	return found.Dir, nil
}
