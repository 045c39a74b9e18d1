{{- define "gvDetails" -}}
{{- $gv := . -}}
The resources of `{{ $gv.GroupVersionString }}`:
{{- range $i, $kind := $gv.SortedKinds }}{{ if $i }},{{ end }} {{ $gv.TypeForKind $kind | markdownRenderTypeLink }}{{ end }}.

- A field without **required** is optional.
- A [reason](reasons.md) in parentheses, such as `NotGranted`, is that of the condition Accepted.
- A duration consists of hours, minutes, and whole seconds, such as `1h30m`. A time has the format of
  RFC 3339 and is between the years 1000 and 2999, such as `2031-12-31T23:59:59Z`.
- The API server rejects objects that break a rule, and says which.
{{ range $gv.SortedTypes }}{{ if .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
