package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/spelling"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/storegateway"
)

// leastTenantBytes is the minimum of a tenant's limit in bytes: with less, its queries could not run.
const leastTenantBytes = 1 << 20

// LoadTenantLimits reads the file of --tenant-limits. Errors contain line numbers.
func LoadTenantLimits(path string) (l storegateway.TenantLimits, err error) {
	if path == "" {
		return l, nil
	}
	text, err := localstate.ReadFile(path)
	if err != nil {
		return l, fmt.Errorf("read --tenant-limits: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return l, nil // an empty file
		}
		return l, fmt.Errorf("--tenant-limits: %s: %w", path, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return l, fmt.Errorf("--tenant-limits: %s: more than one document", path)
	}
	if isNull(document.Content[0]) {
		return l, nil
	}
	pairs, errs := walk(path, document.Content[0])
	for _, p := range pairs {
		var wrong []error
		switch p.key {
		case "default":
			l.Default, wrong = keyLimits(path, p)
		case "tenants":
			l.Tenants, wrong = namedLimits(path, p, func(name string) error {
				if !blocksync.ValidTenant(name) {
					return fmt.Errorf("%q is no name of a tenant", name)
				}
				return nil
			})
		case "clients":
			l.Clients, wrong = namedLimits(path, p, func(name string) error {
				if a, err := netip.ParseAddr(name); err != nil || a.Unmap().String() != name {
					return fmt.Errorf("%q is no address of a client: want one such as 10.0.0.7", name)
				}
				return nil
			})
		default:
			wrong = []error{p.errorf("unknown key %q%s", p.key, spelling.Suggest(p.key, []string{"default", "tenants", "clients"}))}
		}
		errs = append(errs, wrong...)
	}
	if err := errors.Join(errs...); err != nil {
		return storegateway.TenantLimits{}, fmt.Errorf("--tenant-limits: %w", err)
	}
	return l, nil
}

func namedLimits(path string, p pair, valid func(string) error) (map[string]slab.KeyLimits, []error) {
	if isNull(p.value) {
		return nil, nil
	}
	all := make(map[string]slab.KeyLimits)
	pairs, errs := walk(path, p.value)
	for _, named := range pairs {
		if err := valid(named.key); err != nil {
			errs = append(errs, named.errorf("%w", err))
			continue
		}
		l, wrong := keyLimits(path, named)
		all[named.key] = l
		errs = append(errs, wrong...)
	}
	return all, errs
}

func keyLimits(path string, p pair) (l slab.KeyLimits, errs []error) {
	pairs, errs := walk(path, p.value)
	for _, limit := range pairs {
		text, err := scalar(limit)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		switch limit.key {
		case "bytes":
			var n Bytes
			if n, err = ParseBytes(text); err == nil && n < leastTenantBytes {
				err = fmt.Errorf("want at least %v, not %s", Bytes(leastTenantBytes), text)
			}
			l.Bytes = int64(n)
		case "requests":
			l.Requests, err = atLeastOne(text)
		case "queue":
			l.Queue, err = atLeastOne(text)
		default:
			err = fmt.Errorf("unknown limit%s", spelling.Suggest(limit.key, []string{"bytes", "requests", "queue"}))
		}
		if err != nil {
			errs = append(errs, limit.errorf("%s: %w", limit.key, err))
		}
	}
	return l, errs
}

func atLeastOne(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number of 1 and more, not %q", text)
	}
	return n, nil
}
