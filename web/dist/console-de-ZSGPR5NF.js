import{a as p,c as m,va as o}from"./chunk-Q5FWCVBH.js";m(p(o,null),document.getElementById("app"));
