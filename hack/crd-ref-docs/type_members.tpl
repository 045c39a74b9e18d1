{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
Standard Kubernetes object metadata.
{{- else -}}
{{ template "cell" .Doc }}
{{- end -}}
{{- end -}}
