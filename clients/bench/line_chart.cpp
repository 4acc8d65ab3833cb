#include "clients/bench/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ringside::client {
namespace {

constexpr double kWidth = 760, kPanelHeight = 260, kLeft = 70, kRight = 20, kTop = 40, kBottom = 45, kTitleHeight = 30;
constexpr int kTicks = 5;
constexpr const char* kColours[] = {"#1b6ca8", "#d98c00", "#b3243b"};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return escaped;
}

std::string Label(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" text-anchor=\"" + anchor + "\"" + more + ">" +
         Escaped(text) + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + Number(x1) + "\" y1=\"" + Number(y1) + "\" x2=\"" + Number(x2) + "\" y2=\"" + Number(y2) +
         "\" stroke=\"" + colour + "\"/>\n";
}

/// The smallest of 1, 2, 5, 10, 20 ... that covers `most` in kTicks steps.
double Step(double most) {
  const double raw = std::max(most, 1e-9) / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

class Panel {
 public:
  Panel(const ChartPanel& panel, double top) : panel_(panel), top_(top + kTop), bottom_(top + kPanelHeight - kBottom) {
    double x = 0, y = 0;
    for (const ChartLine& line : panel.lines) {
      for (const auto& [px, py] : line.points) {
        x = std::max(x, px);
        y = std::max(y, py);
      }
    }
    x_step_ = Step(x);
    y_step_ = Step(y);
    x_end_ = std::max(x, x_step_);
    y_end_ = y_step_ * std::ceil(std::max(y, y_step_) / y_step_);
  }

  std::string Draw() const {
    std::string svg = Label(kLeft, top_ - 14, "start", panel_.y_title, " font-weight=\"bold\"");
    for (int i = 0; i * y_step_ <= y_end_ * 1.0001; ++i) {
      svg += Line(kLeft, Y(i * y_step_), kWidth - kRight, Y(i * y_step_), i == 0 ? "#555" : "#ddd");
      svg += Label(kLeft - 8, Y(i * y_step_) + 4, "end", Number(i * y_step_));
    }
    for (int i = 0; i * x_step_ <= x_end_ * 1.0001; ++i) {
      svg += Label(X(i * x_step_), bottom_ + 16, "middle", Number(i * x_step_));
    }
    svg += Label((kLeft + kWidth - kRight) / 2, bottom_ + 34, "middle", panel_.x_title);
    for (size_t i = 0; i < panel_.lines.size(); ++i) svg += DrawLine(panel_.lines[i], i);
    return svg;
  }

 private:
  double X(double x) const { return kLeft + x / x_end_ * (kWidth - kLeft - kRight); }
  double Y(double y) const { return bottom_ - y / y_end_ * (bottom_ - top_); }

  std::string DrawLine(const ChartLine& line, size_t index) const {
    const char* colour = kColours[index % std::size(kColours)];
    std::string points, dots;
    for (const auto& [x, y] : line.points) {
      points += (points.empty() ? "" : " ") + Number(X(x)) + "," + Number(Y(y));
      dots += "<circle cx=\"" + Number(X(x)) + "\" cy=\"" + Number(Y(y)) + "\" r=\"2.5\" fill=\"" + colour + "\"/>\n";
    }
    const double x = kWidth - kRight - 60 * static_cast<double>(panel_.lines.size() - index);
    return "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + std::string(colour) + "\" points=\"" + points +
           "\"/>\n" + dots + "<rect x=\"" + Number(x) + "\" y=\"" + Number(top_ - 24) +
           "\" width=\"10\" height=\"10\" fill=\"" + colour + "\"/>\n" + Label(x + 15, top_ - 15, "start", line.name);
  }

  const ChartPanel& panel_;
  const double top_, bottom_;
  double x_step_, y_step_, x_end_, y_end_;
};

}  // namespace

std::string DrawCharts(const std::string& title, const std::vector<ChartPanel>& panels) {
  const double height = kTitleHeight + kPanelHeight * static_cast<double>(panels.size());
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + Number(kWidth) + " " + Number(height) +
                    "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
                    Label(kWidth / 2, 22, "middle", title, " font-size=\"15\"");
  double top = kTitleHeight;
  for (const ChartPanel& panel : panels) {
    svg += Panel(panel, top).Draw();
    top += kPanelHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace ringside::client
