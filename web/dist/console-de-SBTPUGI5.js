import{Oa as o,a as p,c as m}from"./chunk-YT6XPQI3.js";m(p(o,null),document.getElementById("app"));
