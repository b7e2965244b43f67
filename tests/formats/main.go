// Reads what `kedge init --emit` writes as those do who are to read it: Butane, Talos, and yip, which Elemental
// and Kairos have their cloud-config read by. `formats butane|talos|yip FILE` ends with 1 and says why where one
// refuses.
package main

import (
	"bytes"
	"fmt"
	"os"

	butane "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"github.com/mudler/yip/pkg/schema"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/twpayne/go-vfs/v5"
	"gopkg.in/yaml.v3"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "formats butane|talos|yip FILE")
		os.Exit(2)
	}
	text, err := os.ReadFile(os.Args[2])
	if err == nil {
		switch os.Args[1] {
		case "butane":
			err = asButane(text)
		case "talos":
			err = asTalos(text)
		case "yip":
			err = asYip(text, os.Args[2])
		default:
			err = fmt.Errorf("no such format: %s", os.Args[1])
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", os.Args[2], os.Args[1], err)
		os.Exit(1)
	}
}

// As `butane --strict` does: what it warns of is refused too. What comes out is Ignition.
func asButane(text []byte) error {
	ignition, report, err := butane.TranslateBytes(text, common.TranslateBytesOptions{Pretty: true})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, report.String())
	}
	if len(report.Entries) > 0 {
		return fmt.Errorf("%s", report.String())
	}
	_, err = os.Stdout.Write(append(ignition, '\n'))
	return err
}

// As `talosctl apply-config` does: unknown keys and kinds are refused, and what is known is checked.
func asTalos(text []byte) error {
	provider, err := configloader.NewFromBytes(text)
	if err != nil {
		return err
	}
	services := provider.ExtensionServiceConfigs()
	if len(services) != 1 {
		return fmt.Errorf("%d extension services", len(services))
	}
	service := services[0]
	for _, file := range service.ConfigFiles() {
		fmt.Printf("%s: %s, %d bytes\n", service.Name(), file.MountPath(), len(file.Content()))
	}
	return nil
}

// As yip does, and strictly: it passes over keys that it does not know, this does not.
func asYip(text []byte, path string) error {
	config, err := schema.Load(path, vfs.OSFS, schema.FromFile, nil)
	if err != nil {
		return err
	}
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&schema.YipConfig{}); err != nil {
		return err
	}
	files := 0
	for stage, steps := range config.Stages {
		for _, step := range steps {
			for _, file := range step.Files {
				files++
				fmt.Printf("%s: %s, mode %o, %d bytes\n", stage, file.Path, file.Permissions, len(file.Content))
			}
		}
	}
	if files == 0 {
		return fmt.Errorf("no file in any stage")
	}
	return nil
}
