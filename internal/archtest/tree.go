package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A Tree is the module being checked.
type Tree struct {
	Root     string // absolute directory
	Module   string
	Packages []Package
	Files    []string // relative slash paths of files that git tracks or would track

	parsed sync.Map // functions that return a *goFile and an error, by name of the file
}

// A Package is the output of go list for one package, excluding tests.
type Package struct {
	ImportPath string
	Dir        string
	Name       string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
	Standard   bool
}

// A Finding is one violation of a rule.
type Finding struct {
	Where  string // file, file:line or package, relative to the module
	What   string
	Remedy string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s; %s", f.Where, f.What, f.Remedy) }

// Load reads the module whose root directory is given.
func Load(root string) (*Tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	t := &Tree{Root: root}
	out, err := t.command("go", "list", "-m")
	if err != nil {
		return nil, err
	}
	t.Module = strings.TrimSpace(string(out))
	if t.Files, err = t.listFiles(); err != nil {
		return nil, err
	}
	packages, err := t.list("./...")
	if err != nil {
		return nil, err
	}
	// A directory without a tracked file is a developer's scratch directory.
	t.Packages = slices.DeleteFunc(packages, func(p Package) bool {
		dir := t.rel(p.Dir) + "/"
		return dir != "./" && !slices.ContainsFunc(t.Files, func(f string) bool { return strings.HasPrefix(f, dir) })
	})
	return t, nil
}

// list runs go list; unresolved imports are listed too.
func (t *Tree) list(args ...string) ([]Package, error) {
	args = append([]string{"list", "-e", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,Imports,Standard"}, args...)
	out, err := t.command("go", args...)
	if err != nil {
		return nil, err
	}
	var packages []Package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// command runs a program in the module's root and returns its output.
func (t *Tree) command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.Root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// listFiles runs git ls-files, or walks a tree that is not in git.
func (t *Tree) listFiles() ([]string, error) {
	if _, err := os.Stat(filepath.Join(t.Root, ".git")); err == nil {
		out, err := t.command("git", "-c", "safe.directory="+t.Root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		if err != nil {
			return nil, err
		}
		var files []string
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if _, err := os.Stat(filepath.Join(t.Root, name)); err == nil { // not one that is being removed
				files = append(files, name)
			}
		}
		return files, nil
	}
	var files []string
	err := filepath.WalkDir(t.Root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, t.rel(path))
		}
		return err
	})
	return files, err
}

// rel returns a path relative to the root, with slashes.
func (t *Tree) rel(path string) string {
	r, err := filepath.Rel(t.Root, path)
	if err != nil {
		panic("BUG: " + path + " is not under " + t.Root)
	}
	return filepath.ToSlash(r)
}

// short returns an import path relative to the module, and whether it belongs to the module.
func (t *Tree) short(importPath string) (string, bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// read returns the content of a file of the tree.
func (t *Tree) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(t.Root, filepath.FromSlash(name)))
}
