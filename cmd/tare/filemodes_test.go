package main

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// modes returns the permissions of all files and directories in a directory, by path.
func modes(dir string) (map[string]fs.FileMode, error) {
	all := map[string]fs.FileMode{}
	return all, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			all[path] = info.Mode()
		}
		return err
	})
}

// sharedFiles are readable by the group, for programs that ship them.
var sharedFiles = map[string]fs.FileMode{"queries.log": 0o040}

// exposed returns the files and directories of a script that others may use, besides the given ones: its commands created them.
func exposed(env *testscript.Env, given map[string]fs.FileMode) (names []string) {
	all, err := modes(env.WorkDir)
	if err != nil {
		env.T().Fatal(err)
	}
	for path, mode := range all {
		name, _ := filepath.Rel(env.WorkDir, path)
		shared := sharedFiles[filepath.Base(path)]
		if _, known := given[path]; !known && mode&fs.ModeSymlink == 0 && mode.Perm()&0o077&^shared != 0 && !strings.HasPrefix(name, ".tmp") {
			names = append(names, name+" ("+mode.String()+")")
		}
	}
	return names
}
