//go:build !linux

package testmysql_test

import "errors"

func pidfdOpen(int) (int, error) { return -1, errors.ErrUnsupported }

func waitDead(int) error { return errors.ErrUnsupported }
