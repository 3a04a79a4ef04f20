import{a as p,c as m,sa as o}from"./chunk-ETP33APV.js";m(p(o,null),document.getElementById("app"));
