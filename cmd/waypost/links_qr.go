package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waypost/api"
	"waypost/client"
)

func (p linksCommands) qrCommand() *cobra.Command {
	var domain, file string
	c := &cobra.Command{
		Use:   "qr CODE...",
		Short: "Show the QR code of a link, or write it to a file",
		Long: `Show the QR code of a link's short URL in the terminal, or write it to a file as SVG,
PNG or PDF. The PDF of several links, up to 100, consists of sheets (A4) with their codes.
The code stays good when the target changes. To put a logo over the middle, choose --level H.`,
		Example: `  waypost links qr spring-sale
  waypost links qr spring-sale --file spring-sale.svg
  waypost links qr spring-sale --file spring-sale.png --size 1024 --dark 1d3557
  waypost links qr spring-sale summer-sale --file sheet.pdf --millimetres 30`,
		Args: arguments(cobra.RangeArgs(1, 100)),
		RunE: func(c *cobra.Command, args []string) error {
			format := strings.TrimPrefix(filepath.Ext(file), ".")
			switch {
			case len(args) > 1 && format != "pdf":
				return &usageError{errors.New("several links need a --file whose name ends in .pdf")}
			case file == "":
				format = "text"
			case format != "svg" && format != "png" && format != "pdf":
				return &usageError{errors.New("--file: the name must end in .svg, .png or .pdf")}
			default:
				if err := replaceable(file); err != nil {
					return err
				}
			}
			query := url.Values{"format": {format}}
			host, code := linkName(domain, args[0])
			if host != "" {
				query.Set("domain", host)
			}
			for _, name := range args[1:] {
				host, code := linkName(domain, name)
				query.Add("also", strings.TrimPrefix(host+"/"+code, "/"))
			}
			c.Flags().Visit(func(f *pflag.Flag) {
				switch f.Name {
				case "size", "millimetres", "margin", "level", "dark", "light":
					query.Set(f.Name, f.Value.String())
				}
			})
			return p.withAPI(func(server *client.Client) error {
				return p.showQR(c, server, code, query, file)
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "file to write; its name ends in .svg, .png or .pdf")
	c.Flags().Int("size", 512, "width and height in pixels, 64 to 2048")
	c.Flags().Int("millimetres", 0, "width and height on paper, 10 to 180, for SVG and PDF (default 40 for PDF)")
	c.Flags().Int("margin", 4, "light squares around the code, 0 to 16")
	c.Flags().String("level", "M", "damage that it survives: L 7, M 15, Q 25 or H 30 percent")
	c.Flags().String("dark", "000000", "colour of the dark squares, in a file")
	c.Flags().String("light", "FFFFFF", "colour of the light squares, in a file")
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain; the shared one if left out")
	completeWith(c, "level", "L", "M", "Q", "H")
	return c
}

func (p linksCommands) showQR(c *cobra.Command, server *client.Client, code string, query url.Values, file string) error {
	picture, err := server.Raw(c.Context(), client.Path(api.PathLinks, code, "qr")+"?"+query.Encode(), "")
	if err != nil {
		return err
	}
	if file != "" {
		if err := replaceFile(file, func(to io.Writer) error { _, err := to.Write(picture); return err }); err != nil {
			return err
		}
		return p.print("the QR code is in "+file, map[string]any{"file": file})
	}
	text := strings.TrimSuffix(string(picture), "\n")
	shown := text
	if onTerminal(p.stdout) && p.getenv("NO_COLOR") == "" {
		const white, reset = "\x1b[97;40m", "\x1b[0m" // also where the terminal has dark text
		shown = white + strings.ReplaceAll(text, "\n", reset+"\n"+white) + reset
	}
	if columns := len([]rune(strings.SplitN(text, "\n", 2)[0])); p.width() > 0 && columns > p.width() {
		return fmt.Errorf("the QR code is %d columns wide, and the terminal %d: use --margin 1 or --file", columns, p.width())
	}
	return p.print(shown, map[string]any{"text": text})
}
