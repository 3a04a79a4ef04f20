import{a as p,c as m,va as o}from"./chunk-262EJLR5.js";m(p(o,null),document.getElementById("app"));
